"""pyspider's scheduler for the slots that a member owns: one round of its work."""

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspider.scheduler.scheduler import Project
from pyspider.scheduler.task_queue import InQueueTask

from pyspider_zk.errors import BadMessage, ClusterError
from pyspider_zk.jobs.local_jobs import LocalJobs
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import (
    check_pack,
    check_task,
    own_task,
    sort_out,
    usable_info,
    usable_schedule,
    with_url,
)
from pyspider_zk.scheduling.entry import InFlightMessage
from pyspider_zk.scheduling.handover import Handover
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.operations import ProjectOperations
from pyspider_zk.scheduling.parking import Parking
from pyspider_zk.scheduling.projects import SlotProjects
from pyspider_zk.scheduling.script_info import Questions

logger = logging.getLogger("scheduler")

FAILURES = 3
"""How many tasks of a message may fail until the rest waits for its next try."""


TICKS_WAITING = 10
"""How many ticks of a project may wait to be sent; while fetchers are away more stay due."""


class ProjectWaits(Exception):
    """A message's project cannot be loaded, so its messages wait; the argument is its name."""


class SlotScheduler(SlotProjects):
    """Schedules the projects of the slots that it is given.

    All decisions about tasks are pyspider's own. This class decides where messages come from and
    when they count as applied; its base, which projects are in memory and when nothing may be
    done.

    Threads: the one that calls ``run_once`` owns the scheduler. The constructor does no I/O.

    Attributes:
        local_jobs: the jobs to carry out for projects.
    """

    projects: dict[str, Project]

    def __init__(self, *args: Any, slots: int, queues: Queues, **kwargs: Any) -> None:
        super().__init__(*args, slots=slots, **kwargs)
        self.queues = queues
        self._intake = Intake(queues.slot_queues, Parking(queues.parking_lot))
        self._handover = Handover(self.fence, self._intake, queues.records, self)
        self.local_jobs = LocalJobs(ProjectOperations(self), self.fence)
        self._questions = Questions()
        self._tasks_left = 0
        self._unknown: set[str] = set()
        self._is_busy = False

    def run_once(self) -> None:
        """Follow the assignment, take messages in, send tasks out, once."""
        self._is_busy = False
        self._beat()
        self._update_projects()
        ownership = self.fence.ownership
        if ownership is None:
            return
        self._handover.follow(ownership)
        self.local_jobs.follow()
        if ownership.leading:
            self.queues.inbox.forward(self.LOOP_LIMIT)
        if self.fence.held and self.fence.all_open():
            self._take_in()
            self._ask_again()
            self._check_cronjob()
            self._check_select()
            self._is_busy = self.local_jobs.work(self._beat)
            self._check_delete()
            self._check_stranded()
        self._try_dump_cnt()

    # -- messages -------------------------------------------------------------------------------

    def _take_in(self) -> None:
        """Apply messages, in this order.

        pyspider applies status packs, then what was put off, then new tasks. Here new tasks come
        first, for a follow-up is stored before the task that found it counts as done; but those
        for tasks under way are put off until after the packs, so that they meet what pyspider's
        would meet. Nothing is selected in between.
        """
        self._unknown.clear()
        self._intake.read(self.LOOP_LIMIT)
        self._tasks_left = (self.LOOP_LIMIT + 1) // 2  # the other half is for what is new
        self._intake.run_parked(
            lambda project: project not in self.quarantine,
            {QueueKind.NEWTASK: self._apply_tasks, QueueKind.STATUS: self._apply_status},
        )
        self._tasks_left += self.LOOP_LIMIT // 2
        self._check_request()
        self._check_task_done()
        self._check_put_off()
        self._intake.settle()

    def _check_request(self) -> int:
        """Apply new tasks, but for those whose task is under way."""
        return self._intake.run(QueueKind.NEWTASK, self._apply_tasks)

    def _check_task_done(self) -> int:
        """Apply status packs."""
        return self._intake.run(QueueKind.STATUS, self._apply_status)

    def _check_put_off(self) -> int:
        """Apply what was put off, by pyspider itself or until the packs were applied."""
        for task in list(self._postpone_request):
            if task["project"] not in self.projects or self._apply_put_off(task):
                self._postpone_request.remove(task)
        return self._intake.run_put_off(self._apply_put_off)

    def _apply_put_off(self, task: Mapping[str, Any]) -> bool:
        try:
            return task["project"] not in self.quarantine and self.apply_task(task)
        except ProjectWaits:
            return False

    def _must_wait(self, entry: InFlightMessage, project: str) -> bool:
        """Tell whether a message waits for its project, or behind others that do."""
        if project in self.quarantine:
            return True
        return entry.parked is None and self._intake.is_behind(project)

    def _apply_status(self, entry: InFlightMessage) -> bool:
        entry.held, pack = {}, with_url(entry.delivery.body)
        self._check(entry, pack)
        check_pack(pack)
        try:
            waits = self._must_wait(entry, pack["project"])
            project = None if waits else self._running_project(pack)
        except ProjectWaits:
            waits, project = True, None
        if waits:
            entry.held = {} if entry.parked else {pack["project"]: pack}
            return entry.parked is None
        if project is not None:
            self._apply_pack(project, pack)
        return True

    def _apply_pack(self, project: Project, pack: dict[str, Any]) -> None:
        self.fence.check(project.name)
        if pack["taskid"] == "_on_get_info":
            self._learn(project, (pack.get("track") or {}).get("save"))
        else:
            self.on_task_status(own_task(pack))
            self._meter.count()

    def _learn(self, project: Project, told: object) -> None:
        """Take in what a script tells of itself; without what pyspider could not go on with."""
        info, faults = usable_info(told)
        if faults:
            logger.error("project %s: its script tells %s", project.name, ", ".join(faults))
        project.on_get_info(info)
        self._unsaved.add(self.fence.slot(project.name))
        logger.info("%s on_get_info %r", project.name, info)

    def _check(self, entry: InFlightMessage, task: Any) -> None:
        """Make sure that what was found in a slot's queue is a task, or pack, of that slot.

        Raises:
            BadMessage: naming what is wrong.
        """
        check_task(task)
        slot, found = self.fence.slot(task["project"]), entry.delivery.slot
        if slot != found:
            raise BadMessage(
                f"project {task['project']} is of slot {slot}, this is the queue of slot {found}:"
                " was it filled by a cluster with another number of slots?"
            )

    def _running_project(self, task: Any) -> Project | None:
        """Return the project of a message, None if it does not run.

        Raises:
            ProjectWaits: it is in quarantine, maybe since now.
        """
        self._beat()
        if task["project"] not in self.projects and not self._is_there(task["project"]):
            return None
        return self.projects[task["project"]] if self.task_verify(task) else None

    def _is_there(self, project: str) -> bool:
        """Look for a project's row, once in a round: a message may hold thousands of its tasks.

        Its row was written before the messages that this round has read, or it has none.

        Raises:
            ProjectWaits: it is in quarantine, maybe since now.
        """
        if project in self._unknown:
            return False
        try:
            if self._look_at(project):
                return True
        except ClusterError:
            raise
        except Exception as error:
            if project not in self.quarantine:
                self._put_aside(project, error)
            raise ProjectWaits(project) from error
        logger.error("unknown project: %s", project)
        self._unknown.add(project)
        return False

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

    def _apply_tasks(self, entry: InFlightMessage) -> bool:
        """Apply a message of one or many tasks; what must wait for something is set apart.

        A message may hold a thousand tasks: what is more than a round's share is left over.

        Raises:
            BadMessage: some of it is no task; the rest is applied by then.
        """
        if entry.rest is None:
            body = entry.delivery.body
            tasks = body if isinstance(body, list) else [body]
            entry.rest, entry.fault = sort_out(tasks, partial(self._check, entry))
        if not self._hold_back(entry):
            return False
        failure = self._apply_share(entry)
        if failure:
            raise failure
        if entry.fault and not entry.rest and not entry.must_wait:
            raise BadMessage(entry.fault)
        return not entry.rest

    def _hold_back(self, entry: InFlightMessage) -> bool:
        """Set the tasks apart whose projects must wait; return whether the others may go on."""
        rest = entry.rest or []
        waiting = {
            project
            for project in {task["project"] for task in rest}
            if self._must_wait(entry, project)
        }
        if waiting and entry.parked is not None:
            return False  # it waits in the parking lot already
        for task in rest if waiting else ():
            if task["project"] in waiting:
                entry.held.setdefault(task["project"], []).append(task)
        entry.rest = [task for task in rest if task["project"] not in waiting]
        return True

    def _apply_share(self, entry: InFlightMessage) -> Exception | None:
        """Apply as many tasks of a message as the round has left; return the first failure.

        One that fails holds up no other; a database that is away is not asked a thousand times.
        What failed stays in the entry, behind what was not tried.
        """
        untried = deque(entry.rest or [])
        failed: list[Any] = []
        failure: Exception | None = None
        try:
            while untried and self._tasks_left > 0 and len(failed) < FAILURES:
                self._tasks_left -= 1
                try:
                    if self._is_under_way(untried[0]) or not self.apply_task(untried[0]):
                        entry.put_off.append(untried[0])
                except ClusterError:
                    raise
                except ProjectWaits as waits:
                    if entry.parked is not None:
                        break
                    entry.held.setdefault(str(waits), []).append(untried[0])
                except Exception as error:  # each database has errors of its own
                    failure = failure or error
                    failed.append(untried[0])
                untried.popleft()
        finally:
            entry.rest = [*untried, *failed]
        return failure

    def _is_under_way(self, task: Mapping[str, Any]) -> bool:
        """Tell whether a task is with fetcher or processor; a pack of it may be at hand."""
        project = self.projects.get(task["project"])
        return project is not None and bool(project.task_queue.is_processing(task["taskid"]))

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
        self.fence.check(project.name)
        forced = task.get("schedule", {}).get("force_update", False)
        if not forced and task["taskid"] in project.task_queue:
            logger.debug("ignore newtask %(project)s:%(taskid)s %(url)s", task)
            return True
        if forced and project.task_queue.is_processing(task["taskid"]):
            return False
        self._inherited.get(project.name, set()).discard(task["taskid"])
        self.on_request(task)
        return True

    # -- selection --------------------------------------------------------------------------------

    def _check_select(self) -> Any:
        """Select what is due and send it, beginning after the project where the last round ended.

        pyspider begins with the same project each time, and stops after a round's share: those
        behind it would never have their turn.
        """
        selected = super()._check_select()
        if sum(selected.values()) >= self.LOOP_LIMIT:
            self._pass_the_turn(selected)
        return selected

    def _pass_the_turn(self, selected: Mapping[str, int]) -> None:
        """Let those who had their share stand at the end; who was cut short begins next time."""
        *served, last = selected
        if selected[last] >= self.LOOP_LIMIT / 10:
            served.append(last)
        behind = {name: self.projects[name] for name in served if name in self.projects}
        with self.lock:
            self.projects = {
                **{name: own for name, own in self.projects.items() if name not in behind},
                **behind,
            }

    def _ask_again(self) -> None:
        """Ask the scripts again that have not told of themselves for long."""
        if not self._questions.is_time():
            return
        waiting = {
            name
            for name, project in self.projects.items()
            if project.active and project.waiting_get_info and name not in self.quarantine
        }
        for name in self._questions.due(waiting):
            if not any(_is_question(task, name) for task in self._send_buffer):
                logger.warning("project %s: its script has not told of itself, asked again", name)
                self._ask(name)

    def _ask(self, project: str) -> None:
        self.on_select_task(
            {
                "taskid": "_on_get_info",
                "project": project,
                "url": "data:,_on_get_info",
                "status": self.taskdb.SUCCESS,
                "fetch": {"save": self.get_info_attributes},
                "process": {"callback": "_on_get_info"},
            }
        )

    # -- ticks and records ----------------------------------------------------------------------

    def _check_cronjob(self) -> bool:
        """Send every project the ticks that came due since its own last one.

        While they cannot be sent some wait in the buffer; the others stay due.
        """
        now = int(time.time())
        waiting = Counter(
            task["project"] for task in self._send_buffer if task["taskid"] == "_on_cronjob"
        )
        for project in list(self.projects.values()):
            if project.active and project.waiting_get_info:
                continue  # its interval is not known yet; nothing is lost meanwhile
            room = TICKS_WAITING - waiting[project.name]
            if project.name in self.quarantine or room <= 0:
                continue
            with self.isolating(project.name):
                interval = int(project.min_tick) if project.active else 0
                for tick in self._cron.due(project.name, interval, now, room):
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
        if self._handover.save(self._unsaved):
            self._unsaved.clear()
        super()._try_dump_cnt()

    def _dump_cnt(self) -> None:
        """Save counters and script information of all slots, for whoever comes after a death."""
        self._handover.save(set(self.fence.held))


def _is_question(task: Mapping[str, Any], project: str) -> bool:
    return bool(task["taskid"] == "_on_get_info" and task["project"] == project)
