"""Ended tasks: when those ended that are requested again and again."""

from collections import deque
from collections.abc import Callable
from typing import Any

from pyspider_zk.queues.tasks import TaskKey

MOST = 50_000
"""Tasks that are remembered: some ten megabytes."""

TRUSTED = 60.0
"""Seconds after which a row is read again: somebody may have changed it by hand."""


class EndedTasks:
    """Tasks that ended, with the times of their rows, so that duplicates need no reading.

    Most links of a page lead to what was crawled before, many of them to the same few pages. Only
    the owner of a slot writes its tasks, so what it wrote or read itself is what their rows say,
    unless somebody changes them by hand. The oldest are forgotten first.

    Threads: one.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._projects: dict[str, dict[Any, tuple[float, float]]] = {}
        self._order: deque[TaskKey] = deque()

    def note(self, key: TaskKey, crawled: float, now: float) -> None:
        """Remember when a task was crawled last, as its row says at this time."""
        tasks = self._projects.setdefault(key[0], {})
        if key[1] not in tasks:
            self._order.append(key)
            if len(self._order) > self._most:
                self.forget(self._order.popleft())
        tasks[key[1]] = crawled, now

    def forget(self, key: TaskKey) -> None:
        """Forget a task, because its row is written."""
        tasks = self._projects.get(key[0])
        if tasks is not None:
            tasks.pop(key[1], None)

    def discard(self, is_meant: Callable[[str], bool]) -> None:
        """Forget the tasks of the projects that are meant."""
        for project in [project for project in self._projects if is_meant(project)]:
            del self._projects[project]

    def crawled(self, key: TaskKey, now: float) -> float | None:
        """Return when a task was crawled last, in seconds since the epoch; None: read its row."""
        crawled, noted = self._projects.get(key[0], {}).get(key[1], (None, 0.0))
        return crawled if abs(now - noted) < TRUSTED else None
