"""Group commit: the task database as one round sees it; its writes take effect together."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.tasks import COLUMNS, PARTS, TaskKey
from pyspider_zk.tasks.database import Seals, TaskDatabase, TaskWrite
from pyspider_zk.tasks.documents import from_json
from pyspider_zk.tasks.pages import ActivePage
from pyspider_zk.tasks.seals import UNSEALED

logger = logging.getLogger("scheduler")

T = TypeVar("T")

UNREAD: Mapping[str, Any] = {}
"""In place of a row that was not read ahead."""

IDS = ("taskid", "project")
"""Columns that are not read ahead, for whoever asks for a row knows them."""

GetRows = Callable[[str, Collection[Any], Sequence[str]], Mapping[Any, dict[str, Any] | None]]


class GroupCommit:
    """pyspider's task database: it reads rows ahead, and commits the writes of a round together.

    pyspider's scheduler reads and writes one row at a time, and each write waits for the disk. Here
    a write waits for ``commit``; reads see it at once. A row that was read ahead is known until
    then. All other methods are those of the database.

    Threads: the scheduler loop only.

    Args:
        database: behind its circuit breaker.
        bulk: the same database, for many rows at a time.
        sealing: gives the seals that a write for some projects needs, while it is carried out.
    """

    ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS
    FAILED, BAD = TaskDB.FAILED, TaskDB.BAD
    ENDED = frozenset((SUCCESS, FAILED, BAD))

    def __init__(
        self,
        database: Guarded,
        bulk: TaskDatabase,
        sealing: Callable[[Collection[str]], AbstractContextManager[Seals]] = (
            lambda _: nullcontext(UNSEALED)
        ),
    ) -> None:
        self._database = database
        self._bulk = bulk
        self._sealing = sealing
        self._rows: dict[TaskKey, Mapping[str, Any] | None] = {}
        self._writes: dict[TaskKey, TaskWrite] = {}
        self._undo: dict[TaskKey, Callable[[], object]] = {}
        self._refused: dict[TaskKey, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    # -- reading ----------------------------------------------------------------------------------

    def read_ahead(self, taskids: Mapping[str, Collection[Any]], fields: Sequence[str]) -> None:
        """Read the rows, by project, that will be needed before the next commit."""
        self._rows.clear()
        fields = [name for name in fields if name not in IDS] or fields
        for project, wanted in taskids.items():
            self._read_ahead(project, wanted, fields)

    def _read_ahead(self, project: str, wanted: Collection[Any], fields: Sequence[str]) -> None:
        try:
            rows = self._ask_for(self._bulk.get_stored, project, wanted, fields)
        except ClusterError:
            raise
        except Exception as error:  # whoever needs one of them finds out again
            logger.error("tasks of project %s cannot be read: %r", project, error)
            return
        for taskid in wanted:
            key, row = (project, taskid), rows.get(taskid)
            if row is not None or taskid not in rows:  # it was read, or there is none
                self._rows[key] = row

    def read_many(
        self, project: str, taskids: Collection[Any], fields: Sequence[str]
    ) -> Mapping[Any, dict[str, Any] | None]:
        """Return the committed rows of a project by task id, None for one that is unreadable."""
        return self._ask_for(self._bulk.get_many, project, taskids, fields)

    def rows_to_send(
        self, project: str, taskids: Collection[Any], fields: Sequence[str]
    ) -> Mapping[Any, dict[str, Any] | None]:
        """Return the same as ``read_many``.

        A row has the id that was asked for: its pack must have the one that is in flight, and
        tables may hold another spelling, such as the text of a number.
        """
        rows = self.read_many(project, taskids, fields)
        return {taskid: row and {**row, "taskid": taskid} for taskid, row in rows.items()}

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Return committed ACTIVE rows of a project; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.active_page, project, after, limit))

    def state_page(
        self, project: str, status: int, after: Any, limit: int, fields: Sequence[str]
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return committed rows of a project in a state; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.state_page, project, status, after, limit, fields))

    def count_page(self, project: str, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
        """Return how many committed rows are in each state; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.count_page, project, after, limit))

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the ids that a row with this one may have been given; see ``TaskDatabase``."""
        return self._bulk.spellings(taskid)

    def _ask(self, read: Callable[[], T]) -> T:
        found: T = with_fresh_tables(self._database, partial(self._database.ask, read))
        return found

    def _ask_for(
        self, get: GetRows, project: str, taskids: Collection[Any], fields: Sequence[str]
    ) -> Mapping[Any, dict[str, Any] | None]:
        if not taskids:
            return {}
        return self._ask(partial(get, project, taskids, fields))

    def is_new(self, project: str, taskid: Any) -> bool:
        """Return whether a task is known to have no row, and none was written since."""
        key = (project, taskid)
        return key not in self._writes and self._rows.get(key, UNREAD) is None

    def row_ahead(self, project: str, taskid: Any) -> Mapping[str, Any] | None:
        """Return a row that was read ahead and not written since, else None.

        Its documents are as they are stored; see ``decoded``.
        """
        key = (project, taskid)
        return None if key in self._writes else self._rows.get(key)

    def decoded(self, stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a row with its documents, None if they are unreadable."""
        return self._bulk.readable(stored)

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
        stored = self._rows.get((project, taskid), UNREAD)
        if stored is None:
            return None
        known = {**stored, "project": project, "taskid": taskid}
        if stored and fields and known.keys() >= set(fields):
            readable = self._bulk.readable({name: known[name] for name in fields})
            if readable is not None:
                return readable
        row: dict[str, Any] | None = self._database.get_task(project, taskid, fields)
        return row

    # -- writing ----------------------------------------------------------------------------------

    @property
    def projects_with_writes(self) -> set[str]:
        """The projects for which there is something to commit."""
        return {project for project, _ in self._writes}

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
        encoded = self._bulk.encoded({**(obj or {}), **columns} if columns else obj or {})
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
        key = (project, taskid)
        if key in self._writes:
            self._undo.setdefault(key, undo)

    def drop(self, project: str) -> None:
        """Drop a project's rows at once, as pyspider does; see ``drop_all``."""
        self.drop_all([project], lambda _: None)

    def drop_all(
        self,
        projects: Collection[str],
        check: Callable[[Collection[str]], None],
        *,
        is_for_good: bool = True,
    ) -> None:
        """Drop the rows of projects at once, in one transaction, and what waits to be written.

        Args:
            check: called with their names just before the transaction ends, as in ``commit``.
            is_for_good: if not, there will be new rows at once.

        Raises:
            DatabaseAway: it does not answer.
            SealBroken: a slot is sealed at another epoch; nothing was dropped.
            ClusterError: from ``check``.
        """
        if not projects:
            return
        with self._sealing(projects) as seals:
            before_commit = partial(check, projects)
            drop = partial(self._bulk.drop, projects, before_commit, seals, is_for_good=is_for_good)
            with_fresh_tables(self._database, partial(self._database.ask, drop))
        self.discard(set(projects).__contains__)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the writes for the projects that are meant."""
        for known in (self._writes, self._rows, self._undo, self._refused):
            for key in [key for key in known if is_meant(key[0])]:
                del known[key]

    def commit(
        self, check: Callable[[Collection[str]], None], beat: Callable[[], None]
    ) -> Mapping[TaskKey, Exception]:
        """Carry out the writes in one transaction; if the database refuses a row, in several.

        What is not written because of an error is kept for the next commit.

        Args:
            check: called with the names of the projects just before each transaction ends; what it
                raises undoes the transaction.
            beat: called before each transaction.

        Returns:
            The tasks whose rows the database refuses, and why.

        Raises:
            DatabaseAway: it does not answer.
            SealBroken: a slot is sealed at another epoch; what belongs to it is not written.
            ClusterError: from ``check``.
        """
        self._rows.clear()
        writes = list(self._writes.values())
        if writes and not self._is_written(writes, check, beat, with_fresh_tables):
            for project in sorted({write.project for write in writes}):
                own = [write for write in writes if write.project == project]
                self._split(own, check, beat)
        refused, self._refused = self._refused, {}
        return refused

    def _split(
        self,
        writes: Sequence[TaskWrite],
        check: Callable[[Collection[str]], None],
        beat: Callable[[], None],
    ) -> None:
        """Write half by half until each row that is refused stands alone."""
        if self._is_written(writes, check, beat) or len(writes) == 1:
            return
        middle = len(writes) // 2
        self._split(writes[:middle], check, beat)
        self._split(writes[middle:], check, beat)

    def _is_written(
        self,
        writes: Sequence[TaskWrite],
        check: Callable[[Collection[str]], None],
        beat: Callable[[], None],
        attempt: Callable[[Any, Callable[[], None]], None] = lambda _, write: write(),
    ) -> bool:
        """Carry out writes in one transaction; return False if the database refuses them."""
        beat()
        projects = {write.project for write in writes}
        try:
            with self._sealing(projects) as seals:
                write_many = partial(self._bulk.write_many, writes, partial(check, projects), seals)
                attempt(self._database, partial(self._database.ask, write_many))
        except ClusterError:
            raise
        except Exception as error:  # each database has its own errors
            if len(writes) == 1:
                self._refuse(writes[0], error)
            return False
        self._forget(writes)
        return True

    def _refuse(self, write: TaskWrite, error: Exception) -> None:
        key = (write.project, write.taskid)
        self._refused[key] = error
        undo = self._undo.get(key)
        self._forget([write])
        if undo is not None:
            undo()

    def _forget(self, writes: Sequence[TaskWrite]) -> None:
        """Forget writes, whatever came of them; usually all that there are."""
        if len(writes) == len(self._writes):
            self._writes.clear()
            self._undo.clear()
        for write in writes if self._writes else ():
            self._writes.pop((write.project, write.taskid), None)
            self._undo.pop((write.project, write.taskid), None)


def _decoded(write: TaskWrite) -> dict[str, Any]:
    """Return the columns of a write as pyspider knows them."""
    return {
        name: from_json(value) if name in PARTS and isinstance(value, str | bytes) else value
        for name, value in write.columns.items()
    }


def _empty(column: str) -> dict[str, Any] | None:
    """Return what pyspider knows of a column that was never written."""
    return {} if column in PARTS else None
