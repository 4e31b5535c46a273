"""Active tasks: pending tasks of projects that are taken over, loaded from the task database."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspider.scheduler.scheduler import Project

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.handoff import Part, restore_tasks
from pyspider_zk.scheduling.refill import Refill
from pyspider_zk.scheduling.row_counts import RowCounts


class ActiveTasks:
    """Loader of the windows of projects from the task database.

    Threads: the scheduler loop only.

    Args:
        beat: shows that the loop runs.
    """

    def __init__(self, scheduler: FencedScheduler, beat: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._refill = Refill(scheduler, beat)
        self._counts = RowCounts(scheduler)
        self._shared = scheduler.attention.window_size.due

    def load(self, project: Project, part: Part) -> None:
        """Load the first of the ACTIVE rows; ``work`` loads the others.

        Those that the former owner handed over are not loaded. After a death nobody knows which
        were with fetcher or processor; a status pack of the former owner's fetch may still come.

        Args:
            part: the state of the project that the former owner left.

        Raises:
            DatabaseAway: rows that were written before it was stopped wait for the database.
        """
        if project.name in self._scheduler.taskdb.projects_with_writes:
            raise DatabaseAway(f"tasks of project {project.name} wait to be written")
        if part.get("clean"):
            project.task_queue.doubt(restore_tasks(project, part))
        else:
            self._scheduler.inherited[project.name] = time.time()
        self.count(project.name)
        if self._scheduler.tables.may_have(project.name):
            self._share_room()
            project.task_queue.unloaded.add_unknown()
            self._refill.load_page(project)

    def count(self, project: str) -> None:
        """Let a project's rows be counted for pyspider's counters, once after it was loaded."""
        if self._scheduler.tables.may_have(project):
            self._counts.want(project)

    def forget(self, project: str) -> None:
        """Forget a project that is no longer in memory."""
        self._scheduler.inherited.pop(project, None)
        self._counts.forget(project)

    def work(self, isolating: Callable[[str], AbstractContextManager[None]]) -> bool:
        """Load and count for a round's share of time; return whether a project is short of tasks.

        Args:
            isolating: puts a project into quarantine whose tasks cannot be loaded.
        """
        self._share_room()
        self._counts.work(isolating)
        return self._refill.work(isolating)

    def _share_room(self) -> None:
        """Share the room for tasks among the projects that have some.

        If it is much less for each than before, those that have too many leave some out.
        """
        size = self._scheduler.attention.window_size
        size.share(self._scheduler.attention.pending.projects)
        if 2 * size.due < self._shared:
            for project in self._scheduler.projects.values():
                if project.task_loaded:
                    project.task_queue.leave_out()
        if not self._shared / 2 <= size.due <= self._shared:
            self._shared = size.due
