"""Selection of tasks: sends due tasks to the fetcher, with a fair share for every project."""

import logging
import time
from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any

from pyspider.scheduler.scheduler import Project
from pyspider.scheduler.task_queue import TaskQueue

from pyspider_zk.errors import ClusterError
from pyspider_zk.scheduling.agenda import Agenda
from pyspider_zk.scheduling.fair_share import FairShare
from pyspider_zk.scheduling.fenced_scheduler import ON_FINISHED, FencedScheduler
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.round_size import RoundSize

logger = logging.getLogger("scheduler")

MOST_SAID = 3
"""How many tasks of a project that cannot be sent are logged in one round."""

TURNS = 100
"""How many turns make up a round's share: so many projects are served in each round."""

FINISH: dict[str, Any] = {
    "taskid": ON_FINISHED,
    "url": f"data:,{ON_FINISHED}",
    "process": {"callback": ON_FINISHED},
    "schedule": {"age": 0, "priority": 9, "force_update": True},
}
"""The new task that calls a script's ``on_finished``, but for its project."""


class TaskSelection:
    """pyspider's selection of tasks, in turns, among the projects that something happened to.

    What may be selected is what pyspider selects: of active projects that are not paused and whose
    script is known, due tasks by priority, as many as the rate allows. pyspider looks at every
    project in every round and takes at most a tenth of a round's share of each.

    Threads: the scheduler loop only.
    """

    def __init__(
        self, scheduler: FencedScheduler, projects: ProjectSet, round_size: RoundSize
    ) -> None:
        self._scheduler = scheduler
        self._projects = projects
        self._round_size = round_size
        self._fair_share = FairShare()
        self._selected: dict[str, list[str]] = {}

    def select(self, only: Collection[str] | None = None) -> None:
        """Send waiting and due tasks. A project that this fails on goes to quarantine.

        Args:
            only: the projects to select from; None for all.

        Raises:
            ClusterError: a database is away; the selected tasks wait to be selected again.
        """
        self._scheduler.dispatch.send_waiting()
        if not self._agenda.is_due(time.time()) and not len(self._fair_share):
            return
        if self._scheduler.out_queue.full():
            return
        for name in self._agenda.take(time.time(), only):
            with self._projects.isolating(name):
                self._look_at(name)
        self._fair_share.serve(self._round_size.limit, self._quantum, self._take, only)
        with self._scheduler.dispatch.collecting():
            self._send_selected()

    @property
    def _agenda(self) -> Agenda:
        return self._scheduler.attention.selection

    @property
    def _quantum(self) -> int:
        return max(1, int(self._scheduler.LOOP_LIMIT) // TURNS)

    # -- which projects ---------------------------------------------------------------------------

    def _look_at(self, name: str) -> None:
        """Let a project have turns if it may send something, or note when it may."""
        project = self._scheduler.projects.get(name)
        if project is not None and self._is_ready(project):
            self._fair_share.join(name)
        else:
            self._fair_share.leave(name)

    def _is_ready(self, project: Project) -> bool:
        """Return whether a project may send a task now; if not, note when it may.

        What is left out here, such as that its script becomes known, is reported when it happens.
        """
        if not project.active:
            return False
        if project.paused:
            self._agenda.at(project.name, project._paused_time + self._scheduler.PAUSE_TIME)
            return False
        if project.waiting_get_info:
            return False
        tasks = project.task_queue
        tasks.check_update()
        if tasks.priority_queue.qsize() and tasks.bucket.get() >= 1:
            return True
        self._agenda.at(project.name, _next_moment(tasks))
        if not len(tasks) and project._selected_tasks:
            self._approach_finish(project)
        return False

    def _approach_finish(self, project: Project) -> None:
        """Call ``on_finished`` once a project's queue has been empty for some rounds."""
        self._scheduler.attention.on_tasks(project.name)
        if project._send_finished_event_wait < self._scheduler.FAIL_PAUSE_NUM:
            project._send_finished_event_wait += 1
            return
        project._selected_tasks = False
        project._send_finished_event_wait = 0
        self._scheduler.postponed.append({"project": project.name, **deepcopy(FINISH)})

    # -- which tasks ------------------------------------------------------------------------------

    def _take(self, name: str, most: int) -> int:
        """Select tasks of a project; return how many."""
        project = self._scheduler.projects.get(name)
        if project is None:
            return 0
        chosen: list[str] = []
        with self._projects.isolating(name):
            chosen = self._select_of(project, most)
            self._selected.setdefault(name, []).extend(chosen)
        return len(chosen)

    def _select_of(self, project: Project, most: int) -> list[str]:
        """Select tasks of a project; if that fails, none of it is selected in this round.

        Those selected before are loaded from their rows when the project comes out of quarantine.
        """
        tasks = project.task_queue
        try:
            chosen: list[str] = tasks.take(most)
        except Exception:
            for taskid in self._selected.pop(project.name, ()):
                tasks.done(taskid)
            raise
        if any(taskid != ON_FINISHED for taskid in chosen):
            if not project._selected_tasks:
                self._projects.news.add(self._scheduler.fence.slot(project.name))
            project._selected_tasks = True
            project._send_finished_event_wait = 0
        return chosen

    def _send_selected(self) -> None:
        """Send the selected tasks, or put them back where they were selected from.

        Raises:
            ClusterError: a database is away; what was not sent is put back.
        """
        unsent, self._selected = self._selected, {}
        try:
            for project in list(unsent):
                self._send_of(project, unsent)
        finally:
            for project, taskids in unsent.items():
                self._put_back(project, taskids)

    def _send_of(self, project: str, unsent: dict[str, list[str]]) -> None:
        """Send the selected tasks of a project, unless its slot is no longer this member's."""
        rows = self._rows_to_send(project, unsent[project])
        if self._scheduler.fence.is_open(project):
            del unsent[project]
            self._send_rows(project, rows)

    def _rows_to_send(self, project: str, taskids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """Read the rows of selected tasks.

        One that cannot be read stays in processing, where pyspider leaves bad ones, so that it does
        not fail every round.
        """
        scheduler = self._scheduler
        try:
            rows = scheduler.taskdb.rows_to_send(project, taskids, scheduler.request_task_fields)
        except ClusterError:
            raise
        except Exception as error:
            logger.error("selected tasks of project %s cannot be read: %r", project, error)
            return []
        bad = [taskid for taskid in taskids if rows.get(taskid, {}) is None]
        if bad:
            logger.error("%d tasks of %s cannot be read, such as %s", len(bad), project, bad[0])
        return [row for taskid in taskids if (row := rows.get(taskid)) is not None]

    def _send_rows(self, project: str, rows: Sequence[dict[str, Any]]) -> None:
        """Send tasks; one that cannot be sent stays in processing as well."""
        bad = 0
        for row in rows:
            try:
                self._scheduler.on_select_task(row)
            except Exception:
                bad += 1
                if bad <= MOST_SAID:
                    logger.exception("task %s:%s cannot be sent", project, row["taskid"])

    def _put_back(self, project: str, taskids: Sequence[str]) -> None:
        tasks = self._scheduler.projects[project].task_queue
        for taskid in taskids:
            tasks.put_back(taskid)


def _next_moment(tasks: TaskQueue) -> float:
    """Return when a queue may have something to send, on the wall clock; infinity without tasks.

    A put-off task is due, one in flight is given up, or the bucket gets its next token, which
    pyspider adds once there is a whole one.
    """
    with tasks.mutex:  # others look at the queue as well, and looking drops deleted tasks
        tops = [queue.top for queue in (tasks.time_queue, tasks.processing)]
    moments = [top.exetime for top in tops if top is not None]
    bucket = tasks.bucket
    if tasks.priority_queue.qsize() and bucket.rate > 0 and bucket.burst >= 1:
        moments.append(bucket.last_update + 1 / bucket.rate)
    return min(moments, default=float("inf"))
