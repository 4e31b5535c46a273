"""Group commit: the task database as one round sees it; its writes take effect together."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.tasks import COLUMNS, PARTS
from pyspider_zk.tasks.database import TaskDatabase, TaskWrite

TaskKey = tuple[str, Any]
"""A project and the id of a task in it."""


class GroupCommit:
    """pyspider's task database: it reads rows ahead, and commits the writes of a round together.

    pyspider's scheduler reads and writes one row at a time, and each write waits for the disk. Here
    a write waits for ``commit``; reads see it at once. A row that was read ahead is known until
    then. All other methods are those of the database.

    Threads: the scheduler loop only.

    Args:
        database: behind its circuit breaker.
        bulk: the same database, for many rows at a time.
    """

    ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS
    FAILED, BAD = TaskDB.FAILED, TaskDB.BAD

    def __init__(self, database: Guarded, bulk: TaskDatabase) -> None:
        self._database = database
        self._bulk = bulk
        self._rows: dict[TaskKey, Mapping[str, Any] | None] = {}
        self._writes: dict[TaskKey, TaskWrite] = {}
        self._undo: dict[TaskKey, Callable[[], object]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    # -- reading ----------------------------------------------------------------------------------

    def read_ahead(self, taskids: Mapping[str, Collection[Any]], fields: Sequence[str]) -> None:
        """Read the rows, by project, that will be needed before the next commit."""
        self._rows.clear()
        for project, wanted in taskids.items():
            rows = self.read_many(project, wanted, fields)
            for taskid in wanted:
                if taskid not in rows:
                    self._rows[project, taskid] = None
                elif rows[taskid] is not None:
                    self._rows[project, taskid] = rows[taskid]

    def read_many(
        self, project: str, taskids: Collection[Any], fields: Sequence[str]
    ) -> Mapping[Any, dict[str, Any] | None]:
        """Return the committed rows of a project by task id, None for one that is unreadable."""
        read = partial(self._bulk.get_many, project, taskids, fields)
        rows: dict[Any, dict[str, Any] | None] = self._database.ask(read) if taskids else {}
        return rows

    def get_task(
        self, project: str, taskid: Any, fields: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """Return a row, None if there is none."""
        write = self._writes.get((project, taskid))
        row = {} if write and write.is_new else self._row(project, taskid, fields)
        if write is None or row is None:
            return row
        row = {**row, **_decoded(write), "project": project, "taskid": taskid}
        return {name: row.get(name, _empty(name)) for name in fields or COLUMNS}

    def _row(
        self, project: str, taskid: Any, fields: Sequence[str] | None
    ) -> dict[str, Any] | None:
        known = self._rows.get((project, taskid), {})
        if known is None:
            return None
        if fields and known.keys() >= set(fields):
            return {name: known[name] for name in fields}
        row: dict[str, Any] | None = self._database.get_task(project, taskid, fields)
        return row

    # -- writing ----------------------------------------------------------------------------------

    @property
    def has_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._writes)

    def has_writes_of(self, project: str) -> bool:
        """Return whether there is something to commit for a project."""
        return any(key[0] == project for key in self._writes)

    def has_written(self, project: str, taskid: Any) -> bool:
        """Return whether there is something to commit for a task."""
        return (project, taskid) in self._writes

    def insert(self, project: str, taskid: Any, obj: Mapping[str, Any]) -> None:
        """Add a row with the next commit; raises what cannot be stored of it."""
        self._write(TaskWrite(project, taskid, self._bulk.encoded(obj), is_new=True))

    def update(
        self, project: str, taskid: Any, obj: Mapping[str, Any] | None = None, **columns: Any
    ) -> None:
        """Change columns of a row with the next commit; raises what cannot be stored of them."""
        encoded = self._bulk.encoded({**(obj or {}), **columns})
        self._write(TaskWrite(project, taskid, encoded, is_new=False))

    def _write(self, write: TaskWrite) -> None:
        key = (write.project, write.taskid)
        former = self._writes.get(key)
        if former is not None:
            columns = {**former.columns, **write.columns}
            write = TaskWrite(*key, columns, former.is_new or write.is_new)
        self._writes[key] = write

    def on_refusal(self, project: str, taskid: Any, undo: Callable[[], object]) -> None:
        """Let this be called if the database refuses what was written of a task.

        The first one for a task counts: it knows the state before all of the round's writes.
        """
        if self.has_written(project, taskid):
            self._undo.setdefault((project, taskid), undo)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the writes for the projects that are meant."""
        for key in [key for key in self._writes if is_meant(key[0])]:
            self._forget(key)
        for key in [key for key in self._rows if is_meant(key[0])]:
            del self._rows[key]

    def commit(self, check: Callable[[Collection[str]], None]) -> Mapping[TaskKey, Exception]:
        """Carry out the writes in one transaction; if the database refuses a row, in several.

        What is not written because of an error is kept for the next commit.

        Args:
            check: called with the names of the projects just before each transaction ends; what it
                raises undoes the transaction.

        Returns:
            The tasks whose rows the database refuses, and why.

        Raises:
            DatabaseAway: it does not answer.
            ClusterError: from ``check``.
        """
        self._rows.clear()
        refused: dict[TaskKey, Exception] = {}
        self._commit([*self._writes.values()], check, refused)
        return refused

    def _commit(
        self,
        writes: Sequence[TaskWrite],
        check: Callable[[Collection[str]], None],
        refused: dict[TaskKey, Exception],
    ) -> None:
        if not writes:
            return
        before = partial(check, {write.project for write in writes})
        write = partial(self._database.ask, partial(self._bulk.write_many, writes, before))
        try:
            with_fresh_tables(self._database, write)
        except ClusterError:
            raise
        except Exception as error:  # each database has its own errors
            if len(writes) > 1:
                middle = len(writes) // 2
                self._commit(writes[:middle], check, refused)
                self._commit(writes[middle:], check, refused)
                return
            key = (writes[0].project, writes[0].taskid)
            refused[key] = error
            self._undo.get(key, lambda: None)()
        for each in writes:
            self._forget((each.project, each.taskid))

    def _forget(self, key: TaskKey) -> None:
        self._writes.pop(key, None)
        self._undo.pop(key, None)


def _decoded(write: TaskWrite) -> dict[str, Any]:
    """Return the columns of a write as pyspider knows them."""
    return {
        name: json.loads(value) if name in PARTS and isinstance(value, str | bytes) else value
        for name, value in write.columns.items()
    }


def _empty(column: str) -> dict[str, Any] | None:
    """Return what pyspider knows of a column that was never written."""
    return {} if column in PARTS else None
