"""Deletion of projects, at once or by pyspider's group ``delete``."""

import logging
import time
from contextlib import suppress

from pyspider.scheduler.scheduler import Project

from pyspider_zk.databases.tables import drop_table
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.rows import split_group
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.project_set import ProjectSet

logger = logging.getLogger("scheduler")


class Deletion:
    """Deletion of projects of the held slots.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler, projects: ProjectSet) -> None:
        self._scheduler = scheduler
        self._projects = projects
        self._agenda = scheduler.attention.deletion

    def delete_due(self) -> None:
        """Delete the projects that pyspider would: stopped, in group ``delete``, for a day."""
        for name in self._agenda.take(time.time()):
            project = self._scheduler.projects.get(name)
            if project is not None:
                with suppress(DatabaseAway), self._projects.isolating(name):
                    self._delete_if_due(project)

    def _delete_if_due(self, project: Project) -> None:
        """Delete a project if it is due; otherwise note when it is."""
        if project.db_status != "STOP" or "delete" not in split_group(project.group):
            return
        due = project.updatetime + self._scheduler.DELETE_TIME
        self._agenda.at(project.name, due)  # also if deleting it fails
        if due <= time.time():
            self.delete(project.name)

    def delete(self, name: str) -> None:
        """Delete a project and all its data.

        After a failure it can be repeated: the row is deleted after the tables, memory last.

        Raises:
            FenceClosed: possibly in the middle of it.
        """
        logger.warning("deleting project: %s!", name)
        fence = self._scheduler.fence
        for database in (self._scheduler.taskdb, self._scheduler.resultdb):
            fence.check(name)
            drop_table(database, name)
        fence.check(name)
        self._scheduler.projectdb.drop(name)
        self._projects.forget(name)
        self._projects.news.add(fence.slot(name))
