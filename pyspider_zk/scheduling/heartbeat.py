"""Heartbeat of the scheduler loop, which carries the member's load: how much it does."""

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.cluster.records import Load

SPAN = 10.0  # seconds that a rate is taken over


class Meter:
    """Meter of rates over the last seconds.

    Threads: one.

    Args:
        done: returns how many tasks were done since the start.
        clock: in seconds.
        cpu: processor seconds that this process has used.
    """

    def __init__(
        self,
        done: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._done = done
        self._looks: deque[tuple[float, int, float]] = deque()

    def rates(self) -> tuple[float, float]:
        """Return tasks done per second, and the share of one processor that was used."""
        now, used, total = self._clock(), self._cpu(), self._done()
        while len(self._looks) > 1 and now - self._looks[0][0] > SPAN:
            self._looks.popleft()
        self._looks.append((now, total, used))
        then, before, cpu = self._looks[0]
        if now <= then:
            return 0.0, 0.0
        return round((total - before) / (now - then), 2), round((used - cpu) / (now - then), 3)


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


ROWS_PER_BEAT = 1000
"""How many rows are processed between two beats."""

STEPS_PER_BEAT = 20
"""How many tasks are applied between two beats, at most."""


class Heartbeat:
    """Heartbeat: shows the coordinator that the loop runs; otherwise the lease is not renewed.

    Threads: ``beat`` is called by the scheduler loop, ``load`` may be read from any.

    Args:
        measure: returns the load; called once in a second at most.

    Attributes:
        load: as last measured.
        slot_meter: counts the tasks that the loop completes.
        meter: of their rate.
        beaten: when it beat last, on the monotonic clock; 0: never.
    """

    def __init__(self, fence: Fence, measure: Callable[[], Load]) -> None:
        self._fence = fence
        self._measure = measure
        self.slot_meter = SlotMeter()
        self.meter = Meter(lambda: self.slot_meter.done)
        self._measured = float("-inf")
        self._steps = 0
        self.beaten = 0.0
        self.load = Load()

    def beat(self) -> None:
        """Show that the loop runs."""
        if self._fence.ownership is not None:
            self._fence.ownership.beat()
        self.beaten = now = time.monotonic()
        if now - self._measured > 1:
            self._measured = now
            self.load = self._measure()

    def step(self) -> None:
        """Show that the loop runs, in a loop of many short steps: not at each of them."""
        self._steps += 1
        if self._steps % STEPS_PER_BEAT == 0:
            self.beat()

    @property
    def age(self) -> float:
        """Seconds since the last beat; 0 before the first."""
        return time.monotonic() - self.beaten if self.beaten else 0.0
