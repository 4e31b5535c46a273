"""Clock jumps: a wall clock that is set back, and the state of pyspider that depends on it."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspider.libs.counter import BaseCounter

from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.zookeeper.waiting import boottime

logger = logging.getLogger("scheduler")

LEAST = 1.0
"""Smallest jump back, in seconds, that counts; a smaller one is the clock being adjusted."""


class ClockJumps:
    """Detector of jumps: compares the wall clock with a clock that nobody sets.

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

    def follow(self, engine: TaskEngine) -> bool:
        """Trim times in a scheduler's memory that lie in the future; return if the clock jumped."""
        back = self.back()
        if not back:
            return False
        logger.warning("the clock was set back by %.0f s", back)
        now = self._wall()
        for project in engine.projects.values():
            trim_project(project, now)
            project.task_queue.follow_clock()
            engine.attention.on_project(project.name)
        for name, since in engine.inherited.items():
            engine.inherited[name] = min(since, now)
        for manager in engine.counters.values():
            trim_counters(manager.counters.values(), now)
        return True

    def back(self) -> float:
        """Return by how many seconds the clock was set back since the last call; usually 0."""
        before, self._ahead = self._ahead, self._wall() - self._steady()
        jump = before - self._ahead
        return jump if jump >= LEAST else 0.0


def trim_project(project: LoadedProject, now: float) -> None:
    """Move the times of a project that lie in the future back to now.

    Otherwise its rate bucket would not fill, its pause would not end, and no lost task would be
    sent again until the clock has caught up. Times recorded since the jump stay as they are.
    """
    tasks = project.task_queue
    tasks.bucket.last_update = min(tasks.bucket.last_update, now)
    project.pause.since = min(project.pause.since, now)
    for item in list(tasks.processing.queue_dict.values()):
        tasks.put_in_flight(item.taskid, item.priority, item.exetime)  # no later than from now


def trim_counters(counters: Iterable[BaseCounter], now: float) -> None:
    """Move the times of counters that lie in the future back to now."""
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
