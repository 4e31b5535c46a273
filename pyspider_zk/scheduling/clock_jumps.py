"""Clock jumps: a wall clock that is set back, and what pyspider counts by it."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspider.libs.counter import BaseCounter
from pyspider.scheduler.scheduler import Project

from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.zookeeper.clock import boottime

logger = logging.getLogger("scheduler")

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

    def follow(self, scheduler: FencedScheduler) -> bool:
        """Let nothing in a scheduler's memory lie in the future; return whether anything might."""
        back = self.back()
        if not back:
            return False
        logger.warning("the clock was set back by %.0f s", back)
        now = self._wall()
        for project in scheduler.projects.values():
            trim_project(project, now)
        for manager in scheduler.counters.values():
            trim_counters(list(manager.counters.values()), now)
        return True

    def back(self) -> float:
        """Return by how many seconds the clock was set back since the last call; mostly 0."""
        before, self._ahead = self._ahead, self._wall() - self._steady()
        jump = before - self._ahead
        return jump if jump >= LEAST else 0.0


def trim_project(project: Project, now: float) -> None:
    """Let nothing that a project counts by the wall clock lie in the future.

    Else its rate bucket would not fill, its pause not end, and no lost task be sent again until
    the clock is where it was. What was noted since the clock was set back stays as it is.
    """
    tasks = project.task_queue
    tasks.bucket.last_update = min(tasks.bucket.last_update, now)
    project._paused_time = min(project._paused_time, now)
    latest = now + tasks.processing_timeout
    for item in tasks.processing.queue_dict.values():
        item.exetime = min(item.exetime, latest)  # so they stay in order


def trim_counters(counters: Iterable[BaseCounter], now: float) -> None:
    """Let nothing that counters hold lie in the future."""
    for counter in counters:
        state: dict[str, Any] = vars(counter)
        for name in ("cache_start", "_first_data_time"):
            if state.get(name):
                state[name] = min(state[name], now)
        times = state.get("times")
        if times:
            trimmed = [min(each, now) for each in times]
            times.clear()
            times.extend(trimmed)
