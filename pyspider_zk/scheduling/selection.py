"""Selection of tasks: sends due tasks to the fetchers, with a fair share for every project.

Threads: the scheduler loop only.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyspider_zk.errors import ClusterError
from pyspider_zk.scheduling.agenda import Agenda
from pyspider_zk.scheduling.engine import ON_FINISHED, TaskEngine
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.window import Window

logger = logging.getLogger("scheduler")

Take = Callable[[str, int], int]
"""Takes so many due tasks of a project, or fewer if it has no more; returns how many."""


class FairShare:
    """Deficit round robin over the projects that have tasks to send.

    A project whose turn it is sends ``quantum`` tasks, then the next one has its turn. What is left
    of a turn when the round ends is its deficit: it goes on with that in the next round. So of any
    two projects that always have tasks neither is ever ahead by more than one turn, and one that
    is alone sends as many as a round may.

    Threads: one.
    """

    def __init__(self) -> None:
        self._line: deque[str] = deque()
        self._deficits: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._line)

    def join(self, project: str) -> None:
        """Let a project have its turns, after all who wait already."""
        if project not in self._deficits:
            self._deficits[project] = 0
            self._line.append(project)

    def leave(self, project: str) -> None:
        """End a project's turns; it joins anew at the end of the line."""
        if self._deficits.pop(project, None) is not None:
            self._line.remove(project)

    def serve(
        self, limit: int, quantum: int, take: Take, only: Collection[str] | None = None
    ) -> None:
        """Give turns until ``limit`` tasks are taken, or nobody has more: who has none leaves.

        Args:
            only: who may have turns now; the others keep their places. None: everybody.
        """
        waiting = deque(name for name in self._line if only is None or name in only)
        while waiting and limit > 0:
            project = waiting.popleft()
            turn = self._deficits[project] or quantum
            share = min(turn, limit)
            taken = take(project, share)
            limit -= taken
            if taken < share:
                self.leave(project)
            elif share < turn:
                self._deficits[project] = turn - share
            else:
                self._deficits[project] = 0
                self._line.remove(project)
                self._line.append(project)
                waiting.append(project)


MOST_SAID = 3
"""How many tasks of a project that cannot be sent are logged in one round."""

TURNS = 100
"""How many turns make up a round's share: so many projects are served in each round."""

FINISH: Mapping[str, Any] = {
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
    """

    def __init__(self, engine: TaskEngine, projects: ProjectSet) -> None:
        self._engine = engine
        self._projects = projects
        self._fair_share = FairShare()
        self._selected: dict[str, list[str]] = {}

    def select(self, only: Collection[str] | None = None) -> None:
        """Send waiting and due tasks. A project that this fails on goes to quarantine.

        Args:
            only: the projects to select from; None for all.

        Raises:
            ClusterError: a database is away; the selected tasks wait to be selected again.
        """
        self._engine.dispatch.send_waiting()
        if not self._agenda.is_due(time.time()) and not len(self._fair_share):
            return
        if self._engine.out_queue.full():
            return
        self._agenda.work(time.time(), self._look_at, only)
        limit = self._engine.LOOP_LIMIT
        self._fair_share.serve(limit, max(1, limit // TURNS), self._take, only)
        with self._engine.dispatch.collecting():
            self._send_selected()

    @property
    def _agenda(self) -> Agenda:
        return self._engine.attention.selection

    # -- which projects ---------------------------------------------------------------------------

    def _look_at(self, name: str) -> None:
        """Let a project have turns if it may send something, or note when it may."""
        with self._projects.isolating(name):
            project = self._engine.projects.get(name)
            if project is not None and self._is_ready(project):
                self._fair_share.join(name)
            else:
                self._fair_share.leave(name)

    def _is_ready(self, project: LoadedProject) -> bool:
        """Return whether a project may send a task now; if not, note when it may.

        What is left out here, such as that its script becomes known, is reported when it happens.
        """
        if not project.active:
            return False
        if self._engine.is_paused(project):
            self._agenda.at(project.name, project.pause.since + self._engine.PAUSE_TIME)
            return False
        if project.waiting_get_info:
            return False
        tasks = project.task_queue
        tasks.check_update()
        if tasks.priority_queue.qsize() and tasks.bucket.get() >= 1:
            return True
        self._agenda.at(project.name, _next_moment(tasks))
        if not len(tasks) and project.has_sent:
            self._approach_finish(project)
        return False

    def _approach_finish(self, project: LoadedProject) -> None:
        """Call ``on_finished`` once a project's queue has been empty for some rounds."""
        self._engine.attention.on_tasks(project.name)
        project.idle_rounds += 1
        if project.idle_rounds > self._engine.FAIL_PAUSE_NUM:
            project.ran_until = time.time()
            self._engine.request({"project": project.name, **FINISH})
            project.has_sent, project.idle_rounds = False, 0

    # -- which tasks ------------------------------------------------------------------------------

    def _take(self, name: str, most: int) -> int:
        """Select tasks of a project; return how many."""
        project = self._engine.projects.get(name)
        if project is None:
            return 0
        chosen: list[str] = []
        with self._projects.isolating(name):
            chosen = self._select_of(project, most)
            self._selected.setdefault(name, []).extend(chosen)
        return len(chosen)

    def _select_of(self, project: LoadedProject, most: int) -> list[str]:
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
            if not project.has_sent:
                self._projects.news.add(self._engine.fence.slot(project.name))
            project.has_sent, project.idle_rounds = True, 0
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
        if self._engine.fence.is_open(project):
            del unsent[project]
            self._send_rows(project, rows)

    def _rows_to_send(self, project: str, taskids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """Read the rows of selected tasks.

        One that cannot be read stays in processing, where pyspider leaves bad ones, so that it does
        not fail every round.
        """
        fields = self._engine.request_task_fields
        try:
            rows = self._engine.taskdb.get_many(project, taskids, fields)
        except ClusterError:
            raise
        except Exception as error:
            logger.error("selected tasks of project %s cannot be read: %r", project, error)
            return []
        bad = [taskid for taskid in taskids if rows.get(taskid, {}) is None]
        if bad:
            logger.error("%d tasks of %s cannot be read, such as %s", len(bad), project, bad[0])
        # The pack must have the id that is in flight; tables may hold another spelling of it.
        found = ((taskid, rows.get(taskid)) for taskid in taskids)
        return [{**row, "taskid": taskid} for taskid, row in found if row is not None]

    def _send_rows(self, project: str, rows: Sequence[dict[str, Any]]) -> None:
        """Send tasks; one that cannot be sent stays in processing as well."""
        bad = 0
        for row in rows:
            try:
                # One that waits had its time-out end meanwhile: it is sent once, as it is now.
                self._engine.dispatch.withdraw(project, row["taskid"])
                self._engine.on_select_task(row)
            except Exception:
                bad += 1
                if bad <= MOST_SAID:
                    logger.exception("task %s:%s cannot be sent", project, row["taskid"])

    def _put_back(self, project: str, taskids: Sequence[str]) -> None:
        tasks = self._engine.projects[project].task_queue
        for taskid in taskids:
            tasks.put_back(taskid)


def _next_moment(tasks: Window) -> float:
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
