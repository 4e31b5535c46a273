"""Selection of tasks: sends due tasks to the fetcher, with a turn for every project."""

import time
from collections.abc import Collection, Mapping

from pyspider_zk.errors import ClusterError
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.project_set import ProjectSet


class TaskSelection:
    """pyspider's selection of tasks, in which no project blocks the others.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler, projects: ProjectSet) -> None:
        self._scheduler = scheduler
        self._projects = projects

    def select(self, only: Collection[str] | None = None) -> None:
        """Send due tasks, beginning after the project where the last round ended.

        pyspider begins with the same project each time, and stops after a round's share: projects
        at the end would never have a turn. A project that selection fails on goes to quarantine.

        Args:
            only: the projects to select from; None for all.

        Raises:
            ClusterError: a database is away.
        """
        since = time.time()
        try:
            selected = self._scheduler.select(only)
        except ClusterError:
            raise
        except Exception:
            if not self._put_aside_unselectable():
                raise
            self._put_back(since)
            return
        if sum(selected.values()) >= self._scheduler.LOOP_LIMIT:
            self._rotate(selected)

    def _put_aside_unselectable(self) -> bool:
        """Find the projects because of which selection failed; return whether there are any."""
        projects = self._scheduler.projects
        before = len(projects)
        for name, project in list(projects.items()):
            with self._projects.isolating(name):
                if project.active and not project.paused:
                    project.task_queue.check_update()
                    project.task_queue.bucket.get()
        return len(projects) < before

    def _put_back(self, since: float) -> None:
        """Put back the tasks that were selected since then: none of them was sent."""
        for project in self._scheduler.projects.values():
            tasks = project.task_queue
            selected = tasks.processing.queue_dict.values()
            for item in [*selected]:
                if item.exetime >= since + tasks.processing_timeout:
                    tasks.done(item.taskid)
                    tasks.put(item.taskid, item.priority)

    def _rotate(self, selected: Mapping[str, int]) -> None:
        """Move projects that had their share to the end; one that was cut short comes first."""
        *served, last = selected
        if selected[last] >= self._scheduler.LOOP_LIMIT / 10:
            served.append(last)
        projects = self._scheduler.projects
        behind = {name: projects[name] for name in served if name in projects}
        with self._scheduler.lock:
            for name in behind:
                projects[name] = projects.pop(name)
