"""Deletion of projects, at once or by pyspider's group ``delete``."""

import logging
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any

from pyspider_zk.databases.tables import drop_tables
from pyspider_zk.errors import DatabaseAway, FenceClosed
from pyspider_zk.projects.rows import split_group
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_set import ProjectSet

logger = logging.getLogger("scheduler")


class Deletion:
    """Deletion of projects of the held slots.

    Threads: the scheduler loop only.
    """

    def __init__(self, engine: TaskEngine, projects: ProjectSet) -> None:
        self._engine = engine
        self._projects = projects
        self._agenda = engine.attention.deletion

    def delete_due(self) -> None:
        """Delete the projects that pyspider would: stopped, in group ``delete``, for a day.

        What a database or the fence prevents is tried again in the next round.
        """
        for name in self._agenda.take(time.time()):
            project = self._engine.projects.get(name)
            if project is not None:
                with suppress(DatabaseAway, FenceClosed), self._projects.isolating(name):
                    self._delete_if_due(project)

    def _delete_if_due(self, project: LoadedProject) -> None:
        """Delete a project if it is due; otherwise note when it is."""
        if project.db_status != "STOP" or "delete" not in split_group(project.group):
            return
        due = project.updatetime + self._engine.DELETE_TIME
        self._agenda.at(project.name, due)  # also if deleting it fails
        if due <= time.time():
            self.delete(project.name)

    def delete(self, name: str) -> None:
        """Delete a project and all its data; see ``delete_all``."""
        self.delete_all([name])

    def delete_all(self, names: Collection[str]) -> None:
        """Delete projects and all their data, in one transaction of each database.

        After a failure it can be repeated: rows are deleted after the tables, memory last.

        Raises:
            FenceClosed: possibly in the middle of it.
        """
        self.drop_data(names)
        self._engine.databases.check_all(names)
        drop = partial(_drop_rows, self._engine.projectdb, names)
        self._engine.databases.together(names, drop)
        for name in names:
            self._projects.forget(name)
            self._projects.news.add(self._engine.fence.slot(name))
            logger.warning("deleted project: %s!", name)  # in an outage it is tried in every round

    def drop_data(self, names: Collection[str]) -> None:
        """Drop the tasks and results of projects, in one transaction of each database.

        Raises:
            FenceClosed: possibly in the middle of it.
        """
        check = partial(self._engine.databases.check_all, names)
        self._engine.taskdb.drop_all(names, self._engine.databases.check_all)
        drop_tables(self._engine.resultdb, names, check)


def _drop_rows(projectdb: Any, names: Collection[str]) -> None:
    for name in names:
        projectdb.drop(name)
