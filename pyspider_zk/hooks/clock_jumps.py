"""A wall clock that is set back, noticed; and what of pyspider's is counted by it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspider.libs.counter import BaseCounter
from pyspider.scheduler.scheduler import Project

from pyspider_zk.zookeeper.clock import boottime

LEAST = 1.0
"""Seconds that a clock must have been set back; what is less is the clock being trimmed."""


class ClockJumps:
    """Compares the wall clock with one that nobody sets.

    Threads: one.

    Args:
        wall: seconds since the epoch.
        steady: seconds on a clock that never jumps.
    """

    def __init__(
        self,
        wall: Callable[[], float] = lambda: time.time(),
        steady: Callable[[], float] = boottime,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead = wall() - steady()

    def back(self) -> float:
        """Return by how many seconds the clock was set back since the last call; mostly 0."""
        before, self._ahead = self._ahead, self._wall() - self._steady()
        jump = before - self._ahead
        return jump if jump >= LEAST else 0.0


def move_project(project: Project, back: float) -> None:
    """Let what a project counts by the wall clock have the age that it had.

    Else its rate bucket would not fill, its pause not end, and no lost task be sent again until
    the clock is where it was.
    """
    project.task_queue.bucket.last_update -= back
    project._paused_time -= back
    for item in project.task_queue.processing.queue_dict.values():
        item.exetime -= back  # all alike, so they stay in order


def move_counters(counters: Iterable[BaseCounter], back: float) -> None:
    """Let what counters hold have the age that it had."""
    for counter in counters:
        state: dict[str, Any] = vars(counter)
        for name in ("cache_start", "_first_data_time"):
            if state.get(name):
                state[name] -= back
        times = state.get("times")
        if times:
            moved = [each - back for each in times]
            times.clear()
            times.extend(moved)
