"""Counts of rows: how many tasks of a project are in each state, for pyspider's counters."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler

STEP = 50_000
"""How many rows are counted at a time."""

SHARE = 0.01
"""Seconds of each round."""

EVENTS = {
    "success": (TaskDB.SUCCESS,),
    "failed": (TaskDB.FAILED, TaskDB.BAD),
    "pending": (TaskDB.ACTIVE,),
}
"""pyspider's counters of a project, and the states of tasks that each counts."""


@dataclass
class _Count:
    """A count that has come as far as a position."""

    after: Any = None
    found: Counter[int] = field(default_factory=Counter)


class RowCounts:
    """Counter of the rows of projects, once for each, a little in each round.

    Where it takes several rounds, what happens meanwhile may be counted or not.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler) -> None:
        self._scheduler = scheduler
        self._counts: dict[str, _Count] = {}
        self._wanted: set[str] = set()

    def want(self, project: str) -> None:
        """Count a project's rows soon, unless that was done."""
        if project not in self._wanted:
            self._wanted.add(project)
            self._counts[project] = _Count()

    def forget(self, project: str) -> None:
        """Forget a project that is no longer in memory."""
        self._wanted.discard(project)
        self._counts.pop(project, None)

    def work(self, isolating: Callable[[str], AbstractContextManager[None]]) -> None:
        """Count for a round's share of time.

        Args:
            isolating: puts a project into quarantine whose rows cannot be counted.
        """
        until = time.monotonic() + SHARE
        with suppress(DatabaseAway):  # its breaker logs it
            while self._counts and time.monotonic() < until:
                name, count = next(iter(self._counts.items()))
                with isolating(name):
                    is_complete = self._go_on(name, count)
                    if not is_complete:
                        continue
                    self._tell(name, count.found)
                self._counts.pop(name, None)

    def _go_on(self, project: str, count: _Count) -> bool:
        """Count some rows; return whether that was all."""
        some, count.after = self._scheduler.taskdb.count_page(project, count.after, STEP)
        count.found.update(some)
        return count.after is None

    def _tell(self, project: str, found: Mapping[int, int]) -> None:
        for event, states in EVENTS.items():
            number = sum(found.get(state, 0) for state in states)
            self._scheduler.counters["all"].value((project, event), number)
