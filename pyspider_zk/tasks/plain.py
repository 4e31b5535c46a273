"""Any other task database of pyspider's, one row at a time."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspider_zk.databases.active_rows import UNREADABLE
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.tasks.columns import encode, unchanged
from pyspider_zk.tasks.pages import ActivePage
from pyspider_zk.tasks.seals import UNSEALED, Seals
from pyspider_zk.tasks.writes import TaskWrite

ENCODERS = unchanged()


class PlainTasks:
    """Tasks behind pyspider's own methods: neither faster than they are, nor a transaction.

    What was written before an error stays, and so does what is written after ``before_commit``,
    which is called first. Nothing is sealed.

    Threads and blocking: as the database itself.
    """

    is_paged = False

    def __init__(self, taskdb: Any) -> None:
        self._taskdb = taskdb

    def encoded(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns unchanged, for the database encodes them; see ``TaskDatabase``."""
        return encode(columns, ENCODERS)

    def get_many(
        self, project: str, taskids: Collection[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        """Return rows by task id; see ``TaskDatabase``."""
        found: dict[str, dict[str, Any] | None] = {}
        for taskid in taskids:
            try:
                row = self._taskdb.get_task(project, taskid, list(fields))
            except UNREADABLE:
                found[taskid] = None
            else:
                found.update({taskid: row} if row is not None else {})
        return found

    def get_stored(
        self, project: str, taskids: Collection[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        """Return rows that are readable as they are; see ``TaskDatabase``."""
        return self.get_many(project, taskids, fields)

    def readable(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a row; see ``TaskDatabase``."""
        return dict(stored)

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Raise ``NotImplementedError``: pyspider's methods have no pages; see ``is_paged``."""
        raise NotImplementedError(f"{type(self._taskdb).__name__} has no pages")

    def state_page(
        self,
        project: str,
        status: int,
        after: Any,  # noqa: ARG002 - there is but one page
        limit: int,  # noqa: ARG002 - as above
        fields: Sequence[str],
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return all rows in a state; see ``TaskDatabase``."""
        self._look_for(project)
        return list(self._taskdb.load_tasks(status, project, list(fields))), None

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the id alone: what more there is depends on the database; see ``TaskDatabase``."""
        return (taskid,)

    def count_page(
        self,
        project: str,
        after: Any,  # noqa: ARG002 - there is but one page
        limit: int,  # noqa: ARG002 - as above
    ) -> tuple[Mapping[int, int], Any]:
        """Count all rows; see ``TaskDatabase``."""
        self._look_for(project)
        return self._taskdb.status_count(project), None

    def last_ended(self, project: str, limit: int) -> Sequence[Any]:  # noqa: ARG002 - as above
        """Return nothing; see ``TaskDatabase``."""
        return ()

    def _look_for(self, project: str) -> None:
        """Look which tables there are if a project's is unknown: pyspider's loader does not."""
        look = getattr(self._taskdb, "_list_project", None)
        if look is not None and project not in self._taskdb.projects:
            look()

    def write_many(
        self,
        writes: Sequence[TaskWrite],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,  # noqa: ARG002 - there is no transaction to check them in
    ) -> None:
        """Call ``before_commit``, then carry out the writes in their order."""
        before_commit()
        for write in writes:
            is_there = write.is_new and self._is_there(write)
            method = self._taskdb.insert if write.is_new and not is_there else self._taskdb.update
            method(write.project, write.taskid, dict(write.columns))

    def drop(
        self,
        projects: Collection[str],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,  # noqa: ARG002 - as above
        *,
        is_for_good: bool = True,  # noqa: ARG002 - it does not say how
    ) -> None:
        """Call ``before_commit``, then drop the tasks of projects one by one."""
        before_commit()
        for project in projects:
            with_fresh_tables(self._taskdb, partial(self._taskdb.drop, project))

    def seal(self, seals: Seals) -> Mapping[int, Any]:  # noqa: ARG002 - as above
        """Do nothing, and refuse nothing; see ``TaskDatabase``."""
        return {}

    def _is_there(self, write: TaskWrite) -> bool:
        return self._taskdb.get_task(write.project, write.taskid, ["taskid"]) is not None
