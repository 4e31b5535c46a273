"""Applier of messages: applies new tasks and status packs of the slot queues to projects."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspider.scheduler.scheduler import Project

from pyspider_zk.errors import BadMessage, ClusterError, DatabaseAway
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.tasks import (
    TaskKey,
    check_pack,
    check_task,
    own_task,
    usable_info,
    with_url,
)
from pyspider_zk.scheduling.duplicates import Duplicates
from pyspider_zk.scheduling.entry import Disposition, InFlightMessage
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.heartbeat import Heartbeat
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.round_size import RoundSize

logger = logging.getLogger("scheduler")

IGNORED = "ignore newtask %(project)s:%(taskid)s %(url)s"
"""What pyspider logs."""


class ProjectWaits(Exception):
    """A message's project cannot be loaded now, so its messages wait."""


class MessageApplier:
    """Applier of the messages that the intake has read, a round's share at a time.

    Threads: the scheduler loop only.

    Attributes:
        touched: the projects of the last round's messages.
        known: how many new tasks changed nothing, since the start.
    """

    def __init__(
        self,
        scheduler: FencedScheduler,
        projects: ProjectSet,
        intake: Intake,
        heartbeat: Heartbeat,
        round_size: RoundSize,
    ) -> None:
        self._scheduler = scheduler
        self._duplicates = Duplicates(scheduler)
        self._counts = scheduler.counts
        self._fence = scheduler.fence
        self._projects = projects
        self._intake = intake
        self._heartbeat = heartbeat
        self._round_size = round_size
        self.touched: set[str] = set()
        self.known = 0
        self._requests = 0  # of this round
        self._looked_at: set[str] = set()  # the projects whose rows were read in this round
        self._clear: dict[str, Project] = {}
        self._closed: set[int] = set()  # the slots whose fence was closed before the last commit

    def apply(self, *, due: Collection[SlotQueue] | None = None, is_extra: bool = False) -> None:
        """Apply messages and commit what they wrote; they are to be acknowledged afterwards.

        pyspider applies status packs, then what was put off, then new tasks. Here new tasks come
        first, so that a follow-up is stored before the task that found it counts as done; but those
        for tasks in flight are put off until after the packs, so that they meet the same state as
        in pyspider. Nothing is selected in between.

        Args:
            due: the queues that may have new messages, as far as the caller knows; None: all.
            is_extra: this is a round for new messages only; parked ones wait for the next.
        """
        if self.unfinished():
            self.finish()
        self._looked_at.clear()
        self._clear.clear()
        self.touched.clear()
        self._intake.read(self._round_size.limit, due=due)
        self._round_size.note(self._intake.read_of)
        if self._intake.is_empty and not self._scheduler.postponed:
            self._closed = set()
            return
        self._read_ahead()
        with self._counting_known(), self._counts.collecting():
            self._apply_read(is_extra)
        self._write()

    @contextmanager
    def _counting_known(self) -> Iterator[None]:
        """Count at the end of a round which requests made no task pending."""
        self._requests, before = 0, self._counts.events["pending"]
        try:
            yield
        finally:
            made = self._counts.events["pending"] - before
            self.known += max(0, self._requests - made)

    def _apply_read(self, is_extra: bool) -> None:
        """Apply what was read, and what was parked before."""
        if not is_extra:
            self._intake.run_parked(
                lambda project: project not in self._projects.quarantine,
                {QueueKind.NEWTASK: self._apply_new, QueueKind.STATUS: self._apply_status},
            )
        self._intake.run(QueueKind.NEWTASK, self._apply_new)
        self._intake.run(QueueKind.STATUS, self._apply_status)
        self._apply_postponed()
        self._intake.run_put_off(self._apply_put_off)

    def acknowledge(self) -> None:
        """Acknowledge the messages whose effects are committed.

        Those of a slot whose fence was closed before the commit stay as they are, also if they
        wrote nothing.
        """
        if self._intake.is_empty:
            return
        with self._intake.setting_aside(self._closed):
            self._intake.settle()

    def finish(self) -> None:
        """Commit what the messages wrote, then acknowledge them.

        Raises:
            ClusterError: the task database is away, or the fence is closed; call it again.
        """
        self._write()
        self.acknowledge()

    def _write(self) -> None:
        self._closed = {
            slot for slot in self._intake.unsettled if not self._fence.is_slot_open(slot)
        }
        refused = self.commit()
        with self._intake.setting_aside(self._closed):
            self._intake.fail(refused)

    def commit(self) -> Mapping[TaskKey, Exception]:
        """Write the rows of all tasks, with signs of life; see ``FencedScheduler.commit``."""
        return self._scheduler.commit(self._heartbeat.beat)

    def unfinished(self) -> set[int]:
        """Return the slots of which something was applied and is not finished."""
        projects = self._scheduler.taskdb.projects_with_writes
        return self._intake.unsettled | {self._fence.slot(project) for project in projects}

    def _read_ahead(self) -> None:
        """Read the rows of the tasks that this round may apply, all of a project at once."""
        wanted: dict[str, set[Any]] = {}
        for project, taskid in (*self._asked_for(), *self._stray_packs()):
            wanted.setdefault(project, set()).add(taskid)
        self._scheduler.read_ahead(wanted)

    def _asked_for(self) -> Iterator[TaskKey]:
        """Yield the tasks of requests that are compared with rows."""
        for task in self._tasks(QueueKind.NEWTASK):
            project = self._scheduler.projects.get(task["project"])
            is_forced = task.get("schedule", {}).get("force_update", False)
            if project is not None and (is_forced or task["taskid"] not in project.task_queue):
                yield project.name, task["taskid"]

    def _stray_packs(self) -> Iterator[TaskKey]:
        """Yield the tasks of packs that may be answers to the former owner of their project."""
        inherited, projects = self._scheduler.inherited, self._scheduler.projects
        for pack in self._tasks(QueueKind.STATUS) if inherited else ():
            project = projects.get(pack["project"]) if pack["project"] in inherited else None
            if project is not None and not project.task_queue.is_processing(pack["taskid"]):
                yield project.name, pack["taskid"]

    def _tasks(self, kind: QueueKind) -> Iterator[dict[str, Any]]:
        """Yield the tasks, or packs, that this round applies, without messages that are none."""
        for entry in self._intake.untried(kind):
            with suppress(BadMessage):
                yield self._checked(entry)

    # -- status packs -----------------------------------------------------------------------------

    def _apply_status(self, entry: InFlightMessage) -> Disposition:
        self._heartbeat.step()
        pack = self._checked(entry)
        try:
            if self._must_wait(entry, pack["project"]):
                return Disposition.WAITS_FOR_PROJECT
            project = self._running_project(pack)
        except ProjectWaits:
            return Disposition.WAITS_FOR_PROJECT
        if project is not None:
            self._apply_pack(project, pack, entry.delivery.slot)
        return Disposition.APPLIED

    def _apply_pack(self, project: Project, pack: dict[str, Any], slot: int) -> None:
        if pack["taskid"] == "_on_get_info":
            self._learn(project, (pack.get("track") or {}).get("save"))
        else:
            self._scheduler.on_task_status(own_task(pack))
            self._heartbeat.slot_meter.count(slot)

    def _learn(self, project: Project, sent: object) -> None:
        """Apply the settings that a script sent, except those that pyspider would fail on."""
        info, faults = usable_info(sent)
        if faults:
            logger.error("project %s: its script sent %s", project.name, ", ".join(faults))
        project.on_get_info(info)
        self._projects.news.add(self._fence.slot(project.name))
        self._scheduler.attention.on_project(project.name)
        logger.info("%s on_get_info %r", project.name, info)

    # -- new tasks --------------------------------------------------------------------------------

    def apply_task(self, given: Mapping[str, Any]) -> bool:
        """Check and apply one new task; return False if it must wait, because it is in flight."""
        check_task(given)
        self._fence.check(given["project"])
        return self._apply_checked(given)

    def _apply_new(self, entry: InFlightMessage) -> Disposition:
        self._heartbeat.step()
        task = self._checked(entry)
        try:
            if self._must_wait(entry, task["project"]):
                return Disposition.WAITS_FOR_PROJECT
            is_applied = self._apply_one(task)
        except ProjectWaits:
            return Disposition.WAITS_FOR_PROJECT
        self._requests += is_applied
        return Disposition.APPLIED if is_applied else Disposition.WAITS_FOR_TASK

    def _apply_one(self, task: Mapping[str, Any]) -> bool:
        """Apply a new task; return False if it must wait, because it is in flight."""
        if self._scheduler.is_new(task):
            return self._apply_checked(task, is_new=True)
        if self._duplicates.ignores(task):
            logger.debug(IGNORED, task)
            return True
        return not self._scheduler.is_under_way(task) and self._apply_checked(task)

    def _apply_checked(self, given: Mapping[str, Any], *, is_new: bool = False) -> bool:
        task = own_task(given)
        project = self._running_project(task)
        if project is None:
            return True
        if is_new:
            self._scheduler.on_request(task)
            return True
        forced = task.get("schedule", {}).get("force_update", False)
        if not forced and self._is_pending(project, task["taskid"]):
            logger.debug(IGNORED, task)
            return True
        if forced and project.task_queue.is_processing(task["taskid"]):
            return False
        self._scheduler.on_request(task)
        return True

    def _is_pending(self, project: Project, taskid: Any) -> bool:
        return taskid in project.task_queue or self._duplicates.is_unloaded(project, taskid)

    def _apply_postponed(self) -> None:
        """Apply tasks that pyspider itself put off."""
        postponed = self._scheduler.postponed
        for task in list(postponed):
            if task["project"] not in self._scheduler.projects or self._is_over(task):
                postponed.remove(task)

    def _apply_put_off(self, entry: InFlightMessage) -> Disposition:
        is_over = self._is_over(entry.delivery.body)
        return Disposition.APPLIED if is_over else Disposition.WAITS_FOR_TASK

    def _is_over(self, task: Mapping[str, Any]) -> bool:
        """Apply a task that was put off; return False if it must wait on."""
        try:
            applied = task["project"] not in self._projects.quarantine and self.apply_task(task)
        except ProjectWaits:
            return False
        self._requests += applied
        return applied

    # -- their projects ---------------------------------------------------------------------------

    def _checked(self, entry: InFlightMessage) -> dict[str, Any]:
        """Return the task, or pack, that a message is; it is checked once.

        Raises:
            BadMessage: it is none, or not of its slot; the error names what is wrong.
        """
        delivery = entry.delivery
        task: dict[str, Any] = with_url(delivery.body)
        if entry.is_checked:
            return task
        if not delivery.is_valid:
            check_task(task)
        slot = self._fence.slot(task["project"])
        if slot != delivery.slot:
            raise BadMessage(
                f"project {task['project']} is of slot {slot}, this is the queue of slot"
                f" {delivery.slot}: was it filled by a cluster with another number of slots?"
            )
        if not delivery.is_valid and delivery.kind is QueueKind.STATUS:
            check_pack(task)
        entry.is_checked = True
        return task

    def _must_wait(self, entry: InFlightMessage, project: str) -> bool:
        """Return whether a message waits for its project, or behind others that do."""
        if project in self._clear:
            return False
        if project in self._projects.quarantine:
            return True
        return entry.parked is None and self._intake.is_behind(project)

    def _running_project(self, task: Any) -> Project | None:
        """Return the project of a message, None if the project is not active.

        That is found out once in a round. The fence is asked again before the round is committed.

        Raises:
            FenceClosed: nothing of the project may be applied now.
            ProjectWaits: see ``_is_there``.
        """
        name: str = task["project"]
        if name in self._clear:
            return self._clear[name]
        self._heartbeat.beat()
        self._fence.check(name)
        if not self._is_there(name):
            return None
        self.touched.add(name)
        if not self._scheduler.task_verify(task):
            return None
        project = self._scheduler.projects[name]
        if not self._intake.is_behind(name):
            self._clear[name] = project
        return project

    def _is_there(self, name: str) -> bool:
        """Return whether there is a project, and let memory say whether it is active.

        One that is not active in memory may have been started since: then whoever sent the message
        was told that it will be applied. So its row is read, once in a round: it was written before
        the messages that this round has read.

        Raises:
            ProjectWaits: it is in quarantine, maybe since now, or its row cannot be read now.
        """
        project = self._scheduler.projects.get(name)
        if (project is not None and project.active) or name in self._looked_at:
            return project is not None
        try:
            is_there = self._projects.look_at(name)
        except DatabaseAway as error:
            self._projects.look_soon([name])
            raise ProjectWaits from error
        except ClusterError:
            raise
        except Exception as error:
            if name not in self._projects.quarantine:
                self._projects.put_aside(name, error)
            raise ProjectWaits from error
        self._looked_at.add(name)
        if not is_there:
            logger.error("unknown project: %s", name)
        return is_there
