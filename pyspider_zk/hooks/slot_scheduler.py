"""pyspider's scheduler for the slots that a member owns: one round of its work."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspider.scheduler.scheduler import Project
from pyspider.scheduler.task_queue import InQueueTask

from pyspider_zk.core.names import Kind
from pyspider_zk.core.tasks import check_task, own_task, sort_out, usable_info, usable_schedule
from pyspider_zk.errors import BadMessage, ClusterError
from pyspider_zk.hooks.holdings import Holdings
from pyspider_zk.hooks.intake import Entry, Intake
from pyspider_zk.hooks.job_desk import JobDesk
from pyspider_zk.hooks.operations import Operations
from pyspider_zk.hooks.slot_projects import SlotProjects
from pyspider_zk.queues.api import Queues

logger = logging.getLogger("scheduler")

FAILURES = 3
"""How many tasks of a message may fail until the rest waits for its next try."""


class SlotScheduler(SlotProjects):
    """Schedules the projects of the slots that it is given.

    All decisions about tasks are pyspider's own. This class decides where messages come from and
    when they count as applied; its base, which projects are in memory and when nothing may be
    done.

    Threads: the one that calls ``run_once`` owns the scheduler. The constructor does no I/O.

    Attributes:
        desk: the jobs to carry out for projects.
    """

    def __init__(self, *args: Any, slots: int, queues: Queues, **kwargs: Any) -> None:
        super().__init__(*args, slots=slots, **kwargs)
        self.queues = queues
        self._intake = Intake(queues.slot_queues)
        self._holdings = Holdings(self.gate, self._intake, queues.records, self)
        self.desk = JobDesk(Operations(self), self.gate)
        self._tasks_left = 0
        self._is_busy = False

    def run_once(self) -> None:
        """Follow the assignment, take messages in, send tasks out, once."""
        self._is_busy = False
        self._beat()
        self._update_projects()
        ownership = self.gate.ownership
        if ownership is None:
            return
        self._holdings.follow(ownership)
        self.desk.follow()
        if ownership.leading:
            self.queues.inbox.forward(self.LOOP_LIMIT)
        if self.gate.held and self.gate.all_open():
            # A follow-up is stored before the task that found it counts as done.
            self._check_request()
            self._check_task_done()
            self._check_cronjob()
            self._check_select()
            self._is_busy = self.desk.work(self._beat)
            self._check_delete()
            self._check_stranded()
        self._try_dump_cnt()

    # -- messages -------------------------------------------------------------------------------

    def _check_task_done(self) -> int:
        """Apply status packs."""
        return self._intake.run(Kind.STATUS, self.LOOP_LIMIT, self._apply_status)

    def _apply_status(self, entry: Entry) -> bool:
        pack = entry.delivery.body
        self._check(entry, pack)
        project = self._running_project(pack)
        if project is None:
            return True
        self.gate.check(project.name)
        if pack["taskid"] == "_on_get_info":
            self._learn(project, pack.get("track", {}).get("save"))
        else:
            self.on_task_status(own_task(pack))
            self._meter.count()
        return True

    def _learn(self, project: Project, told: object) -> None:
        """Take in what a script tells of itself; without what pyspider could not go on with."""
        info, faults = usable_info(told)
        if faults:
            logger.error("project %s: its script tells %s", project.name, ", ".join(faults))
        project.on_get_info(info)
        self._unsaved.add(self.gate.slot(project.name))
        logger.info("%s on_get_info %r", project.name, info)

    def _check(self, entry: Entry, task: Any) -> None:
        """Make sure that what was found in a slot's queue is a task of that slot.

        Raises:
            BadMessage: naming what is wrong.
        """
        check_task(task)
        slot, found = self.gate.slot(task["project"]), entry.delivery.slot
        if slot != found:
            raise BadMessage(
                f"project {task['project']} is of slot {slot}, this is the queue of slot {found}:"
                " was it filled by a cluster with another number of slots?"
            )

    def _running_project(self, task: Any) -> Project | None:
        """Return the project of a message, None if it does not run."""
        self._beat()
        if task["project"] not in self.projects and not self._look_at(task["project"]):
            logger.error("unknown project: %s", task["project"])
            return None
        return self.projects[task["project"]] if self.task_verify(task) else None

    def on_task_status(self, task: dict[str, Any]) -> Any:
        """Apply a status pack, also one of a task that a former owner dispatched."""
        tasks = self.projects[task["project"]].task_queue
        taskid = task["taskid"]
        inherited = self._inherited.get(task["project"], set())
        if taskid in inherited and not tasks.is_processing(taskid):
            tasks.delete(taskid)
            tasks.processing.put(InQueueTask(taskid, 0, time.time() + tasks.processing_timeout))
        selected = tasks.processing[taskid] if tasks.is_processing(taskid) else None
        inherited.discard(taskid)
        try:
            return super().on_task_status(task)
        except Exception:
            if selected is not None:  # not done after all: the next try must find it processing
                tasks.processing.put(InQueueTask(taskid, selected.priority, selected.exetime))
            raise

    def _check_request(self) -> int:
        """Apply new tasks, those put off in former rounds first."""
        for task in list(self._postpone_request):
            if task["project"] not in self.projects or self.apply_task(task):
                self._postpone_request.remove(task)
        self._tasks_left = self.LOOP_LIMIT
        return self._intake.run(Kind.NEWTASK, self.LOOP_LIMIT, self._apply_tasks)

    def _apply_tasks(self, entry: Entry) -> bool:
        """Apply a message of one or many tasks; what must wait stays in the entry.

        A message may hold a thousand tasks: what is more than a round's share waits as well.

        Raises:
            BadMessage: some of it is no task; the rest is applied by then.
        """
        if entry.rest is None:
            body = entry.delivery.body
            tasks = body if isinstance(body, list) else [body]
            entry.rest, entry.fault = sort_out(tasks, partial(self._check, entry))
        now, later = entry.rest[: self._tasks_left], entry.rest[self._tasks_left :]
        self._tasks_left -= len(now)
        left, failure = self._apply_each(now)
        entry.rest = [*left, *later]
        if failure:
            raise failure
        if entry.fault and not entry.rest:
            raise BadMessage(entry.fault)
        return not entry.rest

    def _apply_each(self, tasks: Sequence[Any]) -> tuple[list[Any], Exception | None]:
        """Return the tasks that are not applied, those that failed last, and the first failure.

        One that fails holds up no other; a database that is away is not asked a thousand times.
        """
        waiting: list[Any] = []
        failed: list[Any] = []
        failure: Exception | None = None
        untried = deque(tasks)
        while untried and len(failed) < FAILURES:
            task = untried.popleft()
            try:
                if not self.apply_task(task):
                    waiting.append(task)
            except ClusterError:
                raise
            except Exception as error:  # each database has errors of its own
                failure = failure or error
                failed.append(task)
        return [*waiting, *untried, *failed], failure

    def on_old_request(self, task: dict[str, Any], old_task: dict[str, Any]) -> Any:
        """Apply a request for a task that has a row.

        An ACTIVE row that is not in memory was written by an owner that did not live, or was
        paused, to see its message through.
        """
        tasks = self.projects[task["project"]].task_queue
        if old_task["status"] == self.taskdb.ACTIVE and task["taskid"] not in tasks:
            self.put_task({**task, "schedule": usable_schedule(old_task.get("schedule"))})
        return super().on_old_request(task, old_task)

    def apply_task(self, given: Mapping[str, Any]) -> bool:
        """Apply one new task; return False if it must wait until the task is not in processing."""
        check_task(given)
        task = own_task(given)
        project = self._running_project(task)
        if project is None:
            return True
        self.gate.check(project.name)
        forced = task.get("schedule", {}).get("force_update", False)
        if not forced and task["taskid"] in project.task_queue:
            logger.debug("ignore newtask %(project)s:%(taskid)s %(url)s", task)
            return True
        if forced and project.task_queue.is_processing(task["taskid"]):
            return False
        self._inherited.get(project.name, set()).discard(task["taskid"])
        self.on_request(task)
        return True

    # -- ticks and records ----------------------------------------------------------------------

    def _check_cronjob(self) -> bool:
        """Send every project the ticks that came due since its own last one."""
        now = int(time.time())
        for project in list(self.projects.values()):
            if project.active and project.waiting_get_info:
                continue  # its interval is not known yet; nothing is lost meanwhile
            interval = int(project.min_tick) if project.active else 0
            for tick in self._ticks.due(project.name, interval, now):
                self._send_tick(project.name, tick)
        return False

    def _send_tick(self, project: str, tick: int) -> None:
        self.on_select_task(
            {
                "taskid": "_on_cronjob",
                "project": project,
                "url": "data:,_on_cronjob",
                "status": self.taskdb.SUCCESS,
                "fetch": {"save": {"tick": tick}},
                "process": {"callback": "_on_cronjob"},
            }
        )

    def _try_dump_cnt(self) -> None:
        """Save the records of all slots every minute, and of those with news at once.

        A project whose script became known begins to tick: a successor must know since when.
        """
        if self._holdings.save(self._unsaved):
            self._unsaved.clear()
        super()._try_dump_cnt()

    def _dump_cnt(self) -> None:
        """Save counters and script information of all slots, for whoever comes after a death."""
        self._holdings.save(set(self.gate.held))
