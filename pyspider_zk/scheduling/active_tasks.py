"""ACTIVE rows of the task database: loaded into memory, and checked again after a takeover."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pyspider.scheduler.scheduler import Project

from pyspider_zk.databases.active_rows import active_rows
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.due_queue import DueQueue
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.handoff import Part, restore_processing
from pyspider_zk.scheduling.heartbeat import ROWS_PER_BEAT
from pyspider_zk.scheduling.retry_queue import RetryQueue

logger = logging.getLogger("scheduler")

ZOMBIE_WINDOW = 30.0
"""Seconds after a takeover until the rows are checked again.

In a database without transactions, an owner that was suspended between its fence check and its
write may still write when it resumes, after the next one has loaded the rows.
"""


class ActiveTasks:
    """Loader of the queues of projects from the task database.

    Threads: the scheduler loop only.

    Args:
        beat: shows that the loop runs.
    """

    def __init__(self, scheduler: FencedScheduler, beat: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._beat = beat
        self._counted: set[str] = set()
        self._second_looks = RetryQueue(self._look_for_stranded)

    def load(self, project: Project, part: Part) -> None:
        """Load the ACTIVE rows, except those known to be with fetcher or processor.

        After a death nobody knows which these are; due tasks are then marked as inherited,
        because a status pack of the former owner's fetch may still come.

        Args:
            part: the state of the project that the former owner left.

        Raises:
            DatabaseAway: rows that were written before it was stopped wait for the database.
        """
        if project.name in self._scheduler.taskdb.projects_with_writes:
            raise DatabaseAway(f"tasks of project {project.name} wait to be written")
        self.count(project.name)
        project.task_queue.priority_queue = DueQueue()  # in place of an empty one
        clean = bool(part.get("clean"))
        away = restore_processing(project, part) if clean else set()
        inherited = self._scheduler.inherited.setdefault(project.name, set())
        now = time.time()
        for taskid, schedule in self._rows(project.name):
            if taskid in away:
                continue
            project.task_queue.put(taskid, schedule["priority"], schedule["exetime"])
            if not clean and schedule["exetime"] <= now:
                inherited.add(taskid)
        if not clean:
            self._second_looks.put(project.name, time.monotonic() + ZOMBIE_WINDOW)
        pending = len(project.task_queue)
        self._scheduler.counters["all"].value((project.name, "pending"), pending)

    def count(self, project: str) -> None:
        """Count a project's rows for pyspider's counters, once instead of at every update."""
        if project in self._counted:
            return
        if self._scheduler.tables.may_have(project):
            count = self._scheduler._update_project_cnt
            with_fresh_tables(self._scheduler.taskdb, lambda: count(project))
        self._counted.add(project)

    def forget(self, project: str) -> None:
        """Forget a project that is no longer in memory."""
        self._scheduler.inherited.pop(project, None)
        self._second_looks.drop(project)
        self._counted.discard(project)

    def look_for_stranded(self) -> None:
        """Check the rows of projects taken over from dead members again, when it is time."""
        now = time.monotonic()
        if self._second_looks.is_due(now):
            with suppress(DatabaseAway):
                self._scheduler.tables.look_again()
                self._second_looks.work(now)

    def _look_for_stranded(self, name: str) -> None:
        tasks = self._scheduler.projects[name].task_queue
        for taskid, schedule in self._rows(name):
            if taskid not in tasks:
                logger.info("found stranded task %s:%s", name, taskid)
                tasks.put(taskid, schedule["priority"], schedule["exetime"])

    def _rows(self, project: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield task id and schedule of the rows to schedule, with signs of life in between.

        A large project may take longer to load than a lease lasts.
        """
        scheduler = self._scheduler
        if not scheduler.tables.may_have(project):
            return
        rows = active_rows(scheduler.taskdb, project, scheduler.scheduler_task_fields)
        for number, row in enumerate(rows):
            if number % ROWS_PER_BEAT == 0:
                self._beat()
            schedule = usable_schedule(row.get("schedule"))
            yield row["taskid"], {**scheduler.default_schedule, **schedule}
