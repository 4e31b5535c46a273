"""Any other task database of pyspider's, one row at a time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyspider_zk.databases.active_rows import UNREADABLE
from pyspider_zk.tasks.columns import encode, unchanged
from pyspider_zk.tasks.writes import TaskWrite

ENCODERS = unchanged()


class PlainTasks:
    """Tasks behind pyspider's own methods: neither faster than they are, nor a transaction.

    What was written before an error stays, and so does what is written after ``before_commit``,
    which is called first.

    Threads and blocking: as the database itself.
    """

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

    def write_many(self, writes: Sequence[TaskWrite], before_commit: Callable[[], None]) -> None:
        """Call ``before_commit``, then carry out the writes in their order."""
        before_commit()
        for write in writes:
            is_there = write.is_new and self._is_there(write)
            method = self._taskdb.insert if write.is_new and not is_there else self._taskdb.update
            method(write.project, write.taskid, dict(write.columns))

    def _is_there(self, write: TaskWrite) -> bool:
        return self._taskdb.get_task(write.project, write.taskid, ["taskid"]) is not None
