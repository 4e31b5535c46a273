"""Selection of tasks: what is due goes to the fetcher, and every project has its turn."""

import time
from collections.abc import Collection, Mapping

from pyspider_zk.errors import ClusterError
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.project_set import ProjectSet


class TaskSelection:
    """Selects as pyspider does, without letting a project stand in the way of the others.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler, projects: ProjectSet) -> None:
        self._scheduler = scheduler
        self._projects = projects

    def select(self, only: Collection[str] | None = None) -> None:
        """Send what is due, beginning after the project where the last round ended.

        pyspider begins with the same project each time, and stops after a round's share: those
        behind it would never have their turn. A project that cannot be selected from is put aside.

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
        """Find out whose fault it was that nothing could be selected; return whether anybody's."""
        projects = self._scheduler.projects
        before = len(projects)
        for name, project in list(projects.items()):
            with self._projects.isolating(name):
                if project.active and not project.paused:
                    project.task_queue.check_update()
                    project.task_queue.bucket.get()
        return len(projects) < before

    def _put_back(self, since: float) -> None:
        """Put back what was selected since then: none of it was sent."""
        for project in self._scheduler.projects.values():
            tasks = project.task_queue
            selected = tasks.processing.queue_dict.values()
            for item in [*selected]:
                if item.exetime >= since + tasks.processing_timeout:
                    tasks.done(item.taskid)
                    tasks.put(item.taskid, item.priority)

    def _rotate(self, selected: Mapping[str, int]) -> None:
        """Let those who had their share stand at the end; who was cut short begins next time."""
        *served, last = selected
        if selected[last] >= self._scheduler.LOOP_LIMIT / 10:
            served.append(last)
        projects = self._scheduler.projects
        behind = {name: projects[name] for name in served if name in projects}
        with self._scheduler.lock:
            for name in behind:
                projects[name] = projects.pop(name)
