"""Recent rows: tasks that were just inserted, as their rows will be read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspider_zk.queues.tasks import PARTS, TaskKey
from pyspider_zk.tasks.documents import from_json

MOST = 5000
"""Rows that are remembered: a few megabytes of usual ones, some 25 at most."""

LARGEST = 4096
"""Bytes of a row's columns; a larger row is read again. A task may carry as much as a message."""

_NEW = frozenset(("url", "status", *PARTS)) - {"track"}


class RecentRows:
    """Rows that this process has inserted, to be sent without reading them again.

    Most tasks of a crawl are sent soon after they were stored. What is remembered is what was
    stored, so what is read from it is what the database would give. The oldest are forgotten first.

    Threads: one.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._rows: dict[TaskKey, Mapping[str, Any]] = {}

    def note(self, key: TaskKey, columns: Mapping[str, Any]) -> None:
        """Remember a row that is inserted, as it is encoded; it must not be changed afterwards."""
        if _size(columns) > LARGEST:
            self.forget(key)
            return
        if len(self._rows) >= self._most:
            del self._rows[next(iter(self._rows))]
        self._rows[key] = columns

    def forget(self, key: TaskKey) -> None:
        """Forget a row, because it is written again, or was not written."""
        self._rows.pop(key, None)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Forget the rows of the projects that are meant."""
        for key in [key for key in self._rows if is_meant(key[0])]:
            del self._rows[key]

    def take(self, key: TaskKey, fields: Sequence[str]) -> dict[str, Any] | None:
        """Return these columns of a row and forget it; None if they must be read."""
        stored = self._rows.pop(key, None)
        if stored is None or not stored.keys() <= _NEW or type(key[1]) is not str:
            return None
        row: dict[str, Any] = dict.fromkeys(fields)
        row["project"], row["taskid"] = key
        row.update(stored)
        if len(row) > len(fields):  # it would have to be cut
            return None
        for name in PARTS:
            if name in row:
                row[name] = _document(row[name])
        return row


def _size(columns: Mapping[str, Any]) -> int:
    """Return about how many bytes a row's columns take; some databases take documents as such."""
    size = 0
    for value in columns.values():
        kind = type(value)
        if kind is str or kind is bytes:
            size += len(value)
        elif kind is dict:
            size += len(repr(value))
    return size


def _document(stored: Any) -> Any:
    """Return a document as it is read; most that are empty are seen without reading."""
    if stored is None or stored == "{}":
        return {}
    return (from_json(stored) if isinstance(stored, str | bytes) else stored) or {}
