"""Refill of windows: loads pending tasks from their rows, a little in each round."""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from typing import Any

from pyspider.scheduler.scheduler import Project

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.heartbeat import ROWS_PER_BEAT
from pyspider_zk.scheduling.unloaded import Scan
from pyspider_zk.scheduling.window import Window
from pyspider_zk.tasks.pages import ActiveRow

PAGE = 1000
"""How many rows are read at a time."""

SHARE = 0.02
"""Seconds of each round, so that nobody waits long for a project of millions of tasks."""


class Refill:
    """Loader of pending tasks into the windows of their projects, page by page and in turns.

    It must be called while nothing waits to be committed: then each row is as new as the memory.

    Threads: the scheduler loop only.

    Args:
        beat: shows that the loop runs.
    """

    def __init__(self, scheduler: FencedScheduler, beat: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._beat = beat
        self._turns: dict[str, None] = {}

    def work(self, isolating: Callable[[str], AbstractContextManager[None]]) -> bool:
        """Load tasks for a round's share of time; return whether a project is short of tasks.

        Args:
            isolating: puts a project into quarantine whose tasks cannot be loaded.
        """
        self._queue_up(self._to_look_at())
        until = time.monotonic() + SHARE
        try:
            while self._turns and time.monotonic() < until:
                name = next(iter(self._turns))
                with isolating(name):
                    self.load_page(self._scheduler.projects[name])
                del self._turns[name]
                self._queue_up([name])
        except DatabaseAway:  # its breaker logs it
            return False
        return any(self._scheduler.projects[name].task_queue.is_short for name in self._turns)

    def _to_look_at(self) -> Collection[str]:
        changed = set(self._scheduler.attention.windows)
        self._scheduler.attention.windows.clear()
        return changed | self._turns.keys()

    def _queue_up(self, names: Collection[str]) -> None:
        """Give a turn to the projects that there is something to load for, and to no others."""
        for name in names:
            project = self._scheduler.projects.get(name)
            if project is not None and project.task_loaded and project.task_queue.next_scan():
                self._turns.setdefault(name)
            else:
                self._turns.pop(name, None)

    def load_page(self, project: Project) -> None:
        """Load a page of a project's tasks, if there is something to load.

        Raises:
            DatabaseAway: nothing was loaded.
        """
        window = project.task_queue
        scan = window.next_scan()
        if scan is None:
            return
        for number, (taskid, schedule) in enumerate(self._next_rows(project.name, window, scan)):
            if number % ROWS_PER_BEAT == 0:
                self._beat()
            if not self._is_held(project, taskid):
                given = {**self._scheduler.default_schedule, **usable_schedule(schedule)}
                window.load(scan, taskid, given["priority"], given["exetime"])
        window.passed(scan, scan.after)

    def _next_rows(self, name: str, window: Window, scan: Scan) -> Iterable[ActiveRow]:
        """Return the rows of the next page."""
        size = min(PAGE, max(1, window.room)) if scan.is_of_due else PAGE
        page = self._scheduler.taskdb.active_page(name, scan.after, size)
        scan.after = page.last
        return page.rows

    def _is_held(self, project: Project, taskid: Any) -> bool:
        """Return whether a task is in memory, which then knows it better than its row."""
        spellings = self._scheduler.taskdb.spellings(taskid)
        return any(each in project.task_queue for each in spellings)
