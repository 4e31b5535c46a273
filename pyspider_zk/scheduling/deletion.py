"""Deletion of projects, at once or by pyspider's group ``delete``."""

import logging
import time
from contextlib import suppress

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

    def delete_due(self) -> None:
        """Delete the projects that pyspider would: stopped, in group ``delete``, for a day."""
        deadline = time.time() - self._scheduler.DELETE_TIME
        for project in list(self._scheduler.projects.values()):
            due = project.db_status == "STOP" and project.updatetime <= deadline
            if due and "delete" in split_group(project.group):
                with suppress(DatabaseAway), self._projects.isolating(project.name):
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
