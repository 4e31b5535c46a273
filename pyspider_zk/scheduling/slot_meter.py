"""Meter of how much is done for each slot, by which the leader weighs slots."""

import heapq
import math
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

LOOK = 10.0
"""Seconds between two looks at what was counted."""

MEMORY = 120.0
"""Seconds after which what was counted has faded to a third."""

FORGOTTEN = 0.5
"""Tasks that are left of those of a slot when it is taken to be idle."""

MOST = 64
"""How many slots are reported: some hundred bytes of each renewal. The others count by projects."""


class _Average(NamedTuple):
    """Tasks, and the seconds they took; both fade alike, so that their ratio is right at once."""

    tasks: float = 0.0
    seconds: float = 0.0


class SlotMeter:
    """Meter of tasks done per second and slot, smoothed.

    Threads: one.

    Args:
        clock: in seconds.

    Attributes:
        busiest: whole tasks per second of the slots with most of them, as of the last look; slots
            that do less than half a task per second are left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._counted: dict[int, int] = {}
        self._before = 0
        self._averages: dict[int, _Average] = {}
        self.busiest: dict[int, int] = {}

    def count(self, slot: int) -> None:
        """Count one task of a slot as done."""
        self._counted[slot] = self._counted.get(slot, 0) + 1

    @property
    def done(self) -> int:
        """How many tasks were counted since the start."""
        return self._before + sum(self._counted.values())

    def follow(self, held: Collection[int], *, may_work: bool) -> None:
        """Look at what was counted, if that is due.

        Args:
            held: the slots that are owned now; others are forgotten.
            may_work: whether something could be done lately. Time in which nothing could does not
                count: an outage tells nothing of how busy a slot is.
        """
        now = self._clock()
        passed = now - self._looked
        if passed < LOOK:
            return
        self._looked = now
        self._before, counted, self._counted = self.done, self._counted, {}
        if may_work:
            self._fade(held, counted, passed)
        self.busiest = self._heaviest(held)

    def _fade(self, held: Collection[int], counted: dict[int, int], passed: float) -> None:
        """Let the averages fade, and add what was counted; idle slots cost nothing."""
        share, before, new = math.exp(-passed / MEMORY), self._averages, _Average()
        self._averages = {}
        for slot in before.keys() | counted.keys():
            old = before.get(slot, new)
            tasks = old.tasks * share + counted.get(slot, 0)
            if slot in held and tasks >= FORGOTTEN:
                self._averages[slot] = _Average(tasks, old.seconds * share + passed)

    def _heaviest(self, held: Collection[int]) -> dict[int, int]:
        rates = {
            slot: round(each.tasks / each.seconds)
            for slot, each in self._averages.items()
            if slot in held
        }
        busy = ((-rate, slot) for slot, rate in rates.items() if rate)
        return {slot: -rate for rate, slot in heapq.nsmallest(MOST, busy)}
