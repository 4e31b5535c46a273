"""Counts of what happens to tasks, added to pyspider's counters once per round."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from pyspider.libs.counter import CounterManager

NEW: Final = "new"
DONE: Final = "done"
FAILED: Final = "failed"
RETRIED: Final = "retried"
RESTARTED: Final = "restarted"
RESTARTED_DONE: Final = "restarted after success"
RESTARTED_FAILED: Final = "restarted after failure"

CHANGES: Mapping[str, tuple[str, Mapping[str, int]]] = MappingProxyType(
    {
        NEW: ("pending", {"pending": 1}),
        DONE: ("success", {"success": 1, "pending": -1}),
        FAILED: ("failed", {"failed": 1, "pending": -1}),
        RETRIED: ("retry", {}),
        RESTARTED: ("pending", {}),
        RESTARTED_DONE: ("pending", {"success": -1, "pending": 1}),
        RESTARTED_FAILED: ("pending", {"failed": -1, "pending": 1}),
    }
)
"""What pyspider counts of each change of a task: an event, and how the totals of its project move.

A task that was cancelled has left the totals long ago.
"""

RECENT = ("5m", "1h", "1d")
"""The windows that count events; ``all`` has the totals."""


class TaskCounts:
    """Counter of what happens to tasks. A change costs one addition, not one for each window.

    Threads: the scheduler loop only.

    Args:
        managers: pyspider's counters, by window.

    Attributes:
        events: how often each of pyspider's events was counted since the start, of all projects.
    """

    def __init__(self, managers: Mapping[str, CounterManager]) -> None:
        self._managers = managers
        self._is_collecting = False
        self._changes: dict[tuple[str, str], int] = {}
        self._times: dict[tuple[str, str], list[float]] = {}
        self.events: Counter[str] = Counter()

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add what the block counts to the counters at its end."""
        self._is_collecting = True
        try:
            yield
        finally:
            self._is_collecting = False
            self._add_up()

    def count(self, project: str, change: str) -> None:
        """Count a change of a task, one of ``CHANGES``."""
        key = project, change
        self._changes[key] = self._changes.get(key, 0) + 1
        if not self._is_collecting:
            self._add_up()

    def time(self, project: str, event: str, seconds: float) -> None:
        """Count how long a fetch or a call of a script took.

        Args:
            event: ``fetch_time`` or ``process_time``.
        """
        self._times.setdefault((project, event), []).append(seconds)
        if not self._is_collecting:
            self._add_up()

    def _add_up(self) -> None:
        changes, self._changes = self._changes, {}
        times, self._times = self._times, {}
        for (project, change), number in changes.items():
            event, moves = CHANGES[change]
            self.events[event] += number
            for window in RECENT:
                self._managers[window].event((project, event), number)
            for name, sign in moves.items():
                self._managers["all"].event((project, name), sign * number)
        averages = self._managers["5m_time"]
        for key, each in times.items():
            averages.event(key, sum(each))
            averages.counters[key].cache_event += len(each) - 1  # that was one
