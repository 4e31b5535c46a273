"""Duplicates: requests that change nothing, of which a crawl consists for the most part."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project

from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.task_rules import ScheduleTerms

LONG_ROUND = 60.0
"""Seconds; the packs of a round are applied sooner than this after its first request."""

ANSWERED = ("on_task_status", "on_task_done", "on_task_failed", "update_task")
"""The methods that may store an answered task as if it had been crawled at another time."""

ASKED = ("task_verify", "on_request", "on_old_request")
"""The methods that pyspider calls for a request that it ignores, because its task has ended."""


class Duplicates:
    """Judge of requests that change nothing, so that nothing need be done about them.

    Most requests of a crawl are such: their tasks wait or are in flight, or have ended and may
    rest. Of what is not sure, and wherever a subclass has a say, the scheduler decides.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler) -> None:
        self._scheduler = scheduler
        self._taskdb = scheduler.taskdb
        self._may_ignore = _is_own(scheduler, ASKED)
        self._ends_usually = _is_own(scheduler, ANSWERED)

    def ignores(self, task: Mapping[str, Any]) -> bool:
        """Return whether a request surely changes nothing, whatever this round's packs say."""
        project, taskid = self._deciding(task["project"]), task["taskid"]
        if project is None:
            return False
        asked = ScheduleTerms.of(task.get("schedule", {}))
        if taskid in project.task_queue:
            return self._stays_pending(project, taskid, asked)
        return self._has_ended(project.name, taskid, asked) or (
            self.is_unloaded(project, taskid) and self._stays_pending(project, taskid, asked)
        )

    def _deciding(self, name: str) -> Project | None:
        """Return an active project of whose requests no subclass decides, else None."""
        project = self._scheduler.projects.get(name) if self._may_ignore else None
        return project if project is not None and project.active else None

    def _stays_pending(self, project: Project, taskid: Any, asked: ScheduleTerms) -> bool:
        """Return whether a task that is pending could rest if it ended in this round."""
        if not self._ends_usually and project.task_queue.is_processing(taskid):
            return False
        return not self._scheduler.runs_again(asked, time.time() - LONG_ROUND)

    def _has_ended(self, project: str, taskid: Any, asked: ScheduleTerms) -> bool:
        """Return whether a task has ended and may rest, as its row tells that was read ahead."""
        row = self._taskdb.row_ahead(project, taskid)
        if row is None or row.get("status") not in self._taskdb.ENDED:
            return False
        return not self._scheduler.runs_again(
            asked,
            row.get("lastcrawltime"),
            lambda: usable_schedule((self._taskdb.decoded(row) or {}).get("schedule")),
        )

    def is_unloaded(self, project: Project, taskid: Any) -> bool:
        """Return whether a task that is not in memory is pending in its row alone."""
        if not project.task_queue.unloaded:
            return False
        row = self._taskdb.get_task(project.name, taskid, ["status"])
        return row is not None and row["status"] == self._taskdb.ACTIVE


def _is_own(scheduler: FencedScheduler, methods: Collection[str]) -> bool:
    """Return whether no subclass overrides any of these methods."""
    kind = type(scheduler)
    return all(getattr(kind, name) is getattr(FencedScheduler, name) for name in methods)
