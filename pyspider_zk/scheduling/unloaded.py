"""Unloaded tasks: what is known of pending tasks that stand in their rows alone. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ALL, NONE = float("-inf"), float("inf")

LOWEST, HIGHEST = -1e300, 1e300
"""Of the priorities and times that are told apart."""

MOST_LEVELS = 64
"""How many priorities are told apart; lower ones beyond that count as the lowest of them."""


def level(number: float) -> float:
    """Return a priority, or a time, as one that can be compared: not even NaN is let through."""
    return min(HIGHEST, max(LOWEST, number))


@dataclass(slots=True)
class Scan:
    """One way through the rows of a project's pending tasks, page by page.

    Attributes:
        priority: due tasks of this priority and above are loaded.
        exetime: put-off tasks that are due from then on are loaded.
        began: how many tasks had been left out when it began.
        after: the position of the last page.
    """

    priority: float
    exetime: float
    began: int
    after: Any = None

    @property
    def is_of_all(self) -> bool:
        """Whether it looks at all rows, also for tasks of which nothing is known."""
        return self.priority == ALL

    @property
    def is_of_due(self) -> bool:
        """Whether it looks for due tasks alone."""
        return self.exetime == NONE


class Unloaded:
    """What is known of the pending tasks that are not in memory.

    A priority, or a time, is known until a scan that began after the last such task was left out
    has come to the end of the rows. So none is forgotten, however often it is loaded and left out.

    Threads: the scheduler loop only.

    Attributes:
        count: how many there are, about.
    """

    def __init__(self) -> None:
        self.count = 0
        self._left_out = 0
        self._unknown = 0  # when tasks of which nothing is known were left out last
        self._levels: dict[float, int] = {}  # by priority, when a task was left out last
        self._due_scans: dict[float, Scan] = {}  # by priority; an interrupted one goes on later
        self._exetime = NONE  # the earliest of those put off
        self._scan: Scan | None = None  # of tasks put off, or of all
        self._exetime_since = NONE  # of those that were left out since that scan began
        self._count_since = 0
        self._latest: Scan | None = None  # which loaded a page last

    def __bool__(self) -> bool:
        return bool(self._unknown or self._levels) or self._exetime < NONE

    @property
    def priority(self) -> float:
        """The highest priority of a due task that was left out; ``ALL`` if none is known."""
        return max(self._levels, default=ALL)

    @property
    def exetime(self) -> float:
        """When the earliest is due that was left out; ``NONE`` if none is known.

        While a scan loads such tasks again, those count that it has left out.
        """
        return self._exetime if self._scan is None else self._exetime_since

    def add_unknown(self) -> None:
        """Note that there may be tasks of which nothing is known."""
        self._left_out += 1
        self._unknown = self._left_out

    def add_due(self, priority: float) -> None:
        """Note that a due task was left out."""
        self._add_one()
        self._levels[level(priority)] = self._left_out
        if len(self._levels) > MOST_LEVELS:
            self._merge_lowest()

    def add_put_off(self, exetime: float) -> None:
        """Note that a task was left out that is put off."""
        self._add_one()
        self._exetime = min(self._exetime, level(exetime))
        self._exetime_since = min(self._exetime_since, level(exetime))

    def _add_one(self) -> None:
        self._left_out += 1
        self.count += 1
        self._count_since += 1

    def take_one(self) -> None:
        """Note that a task is to be loaded that had been left out; it may be left out again."""
        self.count = max(0, self.count - 1)
        self._count_since = max(0, self._count_since - 1)

    def _merge_lowest(self) -> None:
        """Let the second lowest priority count as the lowest: a scan for that loads both."""
        lowest, second = sorted(self._levels)[:2]
        self._levels[lowest] = max(self._levels[lowest], self._levels.pop(second))
        self._due_scans.pop(second, None)

    # -- scans ------------------------------------------------------------------------------------

    @property
    def are_due(self) -> bool:
        """Whether it is known that some are due."""
        return bool(self._levels)

    def next_scan(self, *, due: bool, put_off: bool) -> Scan | None:
        """Return the scan to go on with, which may begin now; None if nothing is to be loaded.

        If there are two, they take turns by pages.

        Args:
            due: whether there is room for due tasks.
            put_off: the same for tasks that are put off.
        """
        wanted = [self._due_scan(self.priority)] if due and self._levels else []
        other = self._other_scan(put_off)
        if other is not None:
            wanted.append(other)
        fresh = [scan for scan in wanted if scan is not self._latest]
        return next(iter(fresh or wanted), None)

    def _other_scan(self, put_off: bool) -> Scan | None:
        """Return the scan of all tasks, or of those that are put off, that is to go on."""
        if self._unknown and (self._scan is None or not self._scan.is_of_all):
            return self._begin(ALL, ALL)
        if self._scan is None and put_off and self._exetime < NONE:
            return self._begin(NONE, self._exetime)
        return self._scan

    def _due_scan(self, priority: float) -> Scan:
        if priority not in self._due_scans:
            self._due_scans[priority] = Scan(priority, NONE, self._left_out)
        return self._due_scans[priority]

    def _begin(self, priority: float, exetime: float) -> Scan:
        self._exetime_since, self._count_since = NONE, 0
        self._scan = Scan(priority, exetime, self._left_out)
        return self._scan

    def passed(self, scan: Scan, last: Any) -> None:
        """Note that a scan has loaded a page, up to a position; None: to the end of the rows.

        What a finished scan has loaded is forgotten.
        """
        self._latest, scan.after = scan, last
        if last is None:
            self._end(scan)

    def _end(self, scan: Scan) -> None:
        self._levels = {
            at: latest
            for at, latest in self._levels.items()
            if at < scan.priority or latest > scan.began
        }
        self._due_scans = _unfinished(self._due_scans, scan, self._levels)
        if scan.is_of_all and self._unknown <= scan.began:
            self._unknown = 0
            self.count = self._count_since
        if scan is self._scan:
            self._scan, self._exetime = None, self._exetime_since
        if not self:
            self.count = 0


def _unfinished(
    scans: dict[float, Scan], ended: Scan, priorities: Iterable[float]
) -> dict[float, Scan]:
    left = set(priorities)
    return {at: scan for at, scan in scans.items() if at in left and scan is not ended}
