"""Task store: the task database as one round of its scheduler sees it.

pyspider's scheduler reads and writes one row at a time, and each write waits for the disk. Here a
write waits for ``commit``, where all of a round take effect together; reads see it at once.

Threads: the scheduler loop only.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace
from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import ClusterError
from pyspider_zk.tasks.columns import COLUMNS, TaskKey
from pyspider_zk.tasks.database import Seals, TaskDatabase, TaskWrite
from pyspider_zk.tasks.documents import DOCUMENTS, from_json
from pyspider_zk.tasks.failures import FailedTask, FailedTry, Position
from pyspider_zk.tasks.filters import FailureFilter
from pyspider_zk.tasks.pages import ActivePage
from pyspider_zk.tasks.seals import UNSEALED

logger = logging.getLogger("scheduler")

T = TypeVar("T")

Check = Callable[[Collection[str]], None]
"""Function that is called with the names of projects just before a transaction ends; what it raises
undoes the transaction."""

KNOWN = ("taskid", "project", "url", "status", "schedule", "lastcrawltime", "updatetime")
"""Columns that are read ahead."""


class TaskStore:
    """Task database of a scheduler, with the writes of a round that are not committed yet.

    Rows that were read ahead are known until the next commit.

    Args:
        database: behind its circuit breaker.
        bulk: the same database, for many rows at a time.
        sealing: gives the seals that a write for some projects needs, while it is carried out.
    """

    ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS
    FAILED, BAD = TaskDB.FAILED, TaskDB.BAD

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
        self._rows: dict[TaskKey, dict[str, Any] | None] = {}  # None: there is no row
        self._writes: dict[TaskKey, TaskWrite] = {}
        self._undo: dict[TaskKey, Callable[[], object]] = {}
        self._refused: dict[TaskKey, Exception] = {}

    # -- committed rows ---------------------------------------------------------------------------

    def look_again(self) -> None:
        """List the projects that have tasks with the next request: others may have changed that.

        Only the owner of a slot makes tables of its projects, so that once after the slot was taken
        is enough. With ten thousand of them it takes ten milliseconds.
        """
        self._bulk.look_again()

    def may_have(self, project: str) -> bool:
        """Return whether a project may have tasks; False is certain."""
        return project in self._ask(self._bulk.projects)

    def get_many(
        self, project: str, taskids: Collection[Any], fields: Sequence[str]
    ) -> Mapping[Any, dict[str, Any] | None]:
        """Return rows of a project by task id, None for one that is unreadable."""
        if not taskids:
            return {}
        return self._ask(partial(self._bulk.get_many, project, taskids, fields))

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Return ACTIVE rows of a project; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.active_page, project, after, limit))

    def state_page(
        self, project: str, status: int, after: Any, limit: int, fields: Sequence[str]
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return rows of a project in a state; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.state_page, project, status, after, limit, fields))

    def count_page(self, project: str, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
        """Return how many rows are in each state; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.count_page, project, after, limit))

    def last_ended(self, project: str, limit: int) -> Sequence[Any]:
        """Return the ids of tasks that have ended; see ``TaskDatabase``."""
        return self._ask(partial(self._bulk.last_ended, project, limit))

    def failed_tasks(
        self, wanted: FailureFilter, after: Position | None, limit: int
    ) -> Sequence[FailedTask]:
        """Return tasks that fail, the latest first, behind a position."""
        found = self._ask(
            lambda: self._bulk.ask_failures(
                lambda table, ask: table.tasks(ask, wanted, after, limit)
            )
        )
        return found or ()

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the ids that a row with this one may have been given; see ``TaskDatabase``."""
        return self._bulk.spellings(taskid)

    def _ask(self, question: Callable[[], T]) -> T:
        """Return the answer of the database; an error may come from an old list of its tables."""
        try:
            answer: T = self._database.ask(question)
        except ClusterError:
            raise
        except Exception:  # each database has errors of its own
            self._bulk.look_again()
            answer = self._database.ask(question)
        return answer

    # -- rows as this round sees them -------------------------------------------------------------

    def forget_rows(self) -> None:
        """Forget the rows that were read ahead."""
        self._rows.clear()

    def read_ahead(self, project: str, taskids: Collection[Any]) -> None:
        """Read rows of a project that will be needed before the next commit."""
        rows = self.get_many(project, taskids, KNOWN)
        for taskid in taskids:
            row = rows.get(taskid)
            if row is not None or taskid not in rows:  # else whoever needs it finds out again
                self._rows[project, taskid] = row

    def get_task(
        self, project: str, taskid: Any, fields: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """Return a row, None if there is none; a document that is unreadable is empty."""
        write = self._writes.get((project, taskid))
        row = {} if write and write.is_new else self._row(project, taskid, fields or COLUMNS)
        if write is None or row is None:
            return row
        row = {**row, **_decoded(write), "project": project, "taskid": taskid}
        return {name: row.get(name, _empty(name)) for name in fields or COLUMNS}

    def _row(self, project: str, taskid: Any, fields: Sequence[str]) -> dict[str, Any] | None:
        key = project, taskid
        if key in self._rows:
            row = self._rows[key]
            if row is None or row.keys() >= {*fields}:
                return row and {name: row[name] for name in fields}
        found = self.get_many(project, [taskid], fields)
        if found.get(taskid) is None and taskid in found:
            plain = [name for name in fields if name not in DOCUMENTS]
            readable = self.get_many(project, [taskid], plain).get(taskid)
            return readable and {name: readable.get(name, _empty(name)) for name in fields}
        return found.get(taskid)

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
        encoded = self._bulk.encoded({**(obj or {}), **columns})
        self._write(TaskWrite(project, taskid, encoded, is_new=False))

    def _write(self, write: TaskWrite) -> None:
        key = (write.project, write.taskid)
        former = self._writes.get(key)
        if former is not None:
            columns = {**former.columns, **write.columns}
            write = TaskWrite(*key, columns, former.is_new or write.is_new, former.failure)
        self._writes[key] = write

    def note_failure(self, project: str, taskid: Any, failure: FailedTry | None) -> None:
        """Note what is wrong with a task that something was written of; None: nothing any more."""
        key = (project, taskid)
        if key in self._writes:
            self._writes[key] = replace(self._writes[key], failure=failure)

    def recover(self, project: str, taskid: Any) -> None:
        """Note that nothing is wrong with a task, if there is such a task or not."""
        if self.may_have(project):
            self.update(project, taskid, {})
            self.note_failure(project, taskid, None)

    def on_refusal(self, project: str, taskid: Any, undo: Callable[[], object]) -> None:
        """Let this be called if the database refuses what was written of a task.

        The first one for a task counts: it knows the state before all of the round's writes.
        """
        key = (project, taskid)
        if key in self._writes:
            self._undo.setdefault(key, undo)

    def drop_all(
        self, projects: Collection[str], check: Check, *, is_for_good: bool = True
    ) -> None:
        """Drop the rows of projects at once, in one transaction, and what waits to be written.

        Args:
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
            self._ask(drop)
        self.discard(set(projects).__contains__)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the writes for the projects that are meant."""
        for known in (self._writes, self._rows, self._undo, self._refused):
            for key in [key for key in known if is_meant(key[0])]:
                del known[key]

    # -- committing -------------------------------------------------------------------------------

    def commit(self, check: Check, beat: Callable[[], None]) -> Mapping[TaskKey, Exception]:
        """Carry out the writes in one transaction; if the database refuses a row, in several.

        What is not written because of an error is kept for the next commit. A failure that cannot
        be noted keeps no row from being written.

        Args:
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
        if writes and not self._is_written(writes, check, beat, self._ask) and len(writes) > 1:
            for project in sorted({write.project for write in writes}):
                own = [write for write in writes if write.project == project]
                self._split(own, check, beat)
        refused, self._refused = self._refused, {}
        return refused

    def _split(self, writes: Sequence[TaskWrite], check: Check, beat: Callable[[], None]) -> None:
        """Write half by half until each row that is refused stands alone."""
        if self._is_written(writes, check, beat, self._database.ask) or len(writes) == 1:
            return
        middle = len(writes) // 2
        self._split(writes[:middle], check, beat)
        self._split(writes[middle:], check, beat)

    def _is_written(
        self,
        writes: Sequence[TaskWrite],
        check: Check,
        beat: Callable[[], None],
        ask: Callable[[Callable[[], None]], None],
    ) -> bool:
        """Carry out writes in one transaction; return False if the database refuses them."""
        beat()
        projects = {write.project for write in writes}
        try:
            with self._sealing(projects) as seals:
                ask(partial(self._bulk.write_many, writes, partial(check, projects), seals))
        except ClusterError:
            raise
        except Exception as error:  # each database has its own errors
            if len(writes) > 1:
                return False
            (write,) = writes
            if write.failure is UNSET:
                self._refuse(write, error)
                return False
            logger.error("no failure is noted of %s:%s: %r", write.project, write.taskid, error)
            return self._is_written([replace(write, failure=UNSET)], check, beat, ask)
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
        for write in writes:
            self._writes.pop((write.project, write.taskid), None)
            self._undo.pop((write.project, write.taskid), None)


def _decoded(write: TaskWrite) -> dict[str, Any]:
    """Return the columns of a write as pyspider knows them."""
    return {
        name: from_json(value) if name in DOCUMENTS and isinstance(value, str | bytes) else value
        for name, value in write.columns.items()
    }


def _empty(column: str) -> dict[str, Any] | None:
    """Return what pyspider knows of a column that was never written."""
    return {} if column in DOCUMENTS else None
