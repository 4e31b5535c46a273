"""Recent rows: tasks that were just inserted, as their rows will be read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspider_zk.queues.tasks import PARTS, TaskKey, is_plain

MOST = 5000
"""Rows that are remembered: a few megabytes."""

_NEW = frozenset(("taskid", "project", "url", "status", *PARTS)) - {"track"}


class RecentRows:
    """Rows that this process has inserted, to be sent without reading them again.

    Most tasks of a crawl are sent soon after they were stored. What is remembered is exactly what
    the database would give: a task of texts, small numbers and flat parts is the same after it was
    JSON. The oldest are forgotten first.

    Threads: one.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tasks: dict[TaskKey, Mapping[str, Any]] = {}

    def note(self, key: TaskKey, task: Mapping[str, Any]) -> None:
        """Remember a task whose row is inserted."""
        if len(self._tasks) >= self._most:
            del self._tasks[next(iter(self._tasks))]
        self._tasks[key] = {**task}

    def forget(self, key: TaskKey) -> None:
        """Forget a row, because it is written again, or was not written."""
        self._tasks.pop(key, None)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Forget the rows of the projects that are meant."""
        for key in [key for key in self._tasks if is_meant(key[0])]:
            del self._tasks[key]

    def take(self, key: TaskKey, fields: Sequence[str]) -> dict[str, Any] | None:
        """Return these columns of a row and forget it; None if they must be read."""
        task = self._tasks.pop(key, None)
        if task is None or not task.keys() <= _NEW or type(key[1]) is not str:
            return None
        row: dict[str, Any] = {**dict.fromkeys(fields), **task}
        if len(row) > len(fields):  # it would have to be cut
            return None
        for name in PARTS:
            if name in row:
                part = row[name]
                if part and not is_plain(part):
                    return None
                row[name] = {**part} if part else {}
        return row
