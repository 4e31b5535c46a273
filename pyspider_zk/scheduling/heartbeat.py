"""Heartbeat of the scheduler loop, which carries the member's load."""

import time
from collections.abc import Callable

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.cluster.records import Load
from pyspider_zk.scheduling.meter import Meter
from pyspider_zk.scheduling.slot_meter import SlotMeter

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
