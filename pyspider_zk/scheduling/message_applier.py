"""Applier of messages: decides about the new tasks and status packs that the intake has read.

pyspider applies status packs, then what was put off, then new tasks. Here new tasks come first, so
that a follow-up is stored before the task that found it counts as done; but those for tasks in
flight wait until after the packs, so that they meet the same state as in pyspider. Nothing is
selected in between.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from pyspider_zk.errors import BadMessage, ClusterError, DatabaseAway
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import check_pack, check_task, own_task, usable_info, with_url
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.heartbeat import Heartbeat
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.parking import Disposition, InFlightMessage
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.task_rules import ScheduleTerms, restarts
from pyspider_zk.tasks.columns import TaskKey
from pyspider_zk.tasks.failures import why_not

logger = logging.getLogger("scheduler")

LATELY = 60.0
"""Seconds between a pack and a new task that came with it, at most, until both are applied."""


class ProjectWaits(Exception):
    """A message's project cannot be loaded now, so its messages wait."""


class MessageApplier:
    """Applier of messages. Threads: the scheduler loop only.

    Attributes:
        touched: the projects of the last round's messages.
    """

    def __init__(
        self, engine: TaskEngine, projects: ProjectSet, intake: Intake, heartbeat: Heartbeat
    ) -> None:
        self._engine = engine
        self._fence = engine.fence
        self._projects = projects
        self._intake = intake
        self._heartbeat = heartbeat
        self.touched: set[str] = set()
        self._looked_at: set[str] = set()  # the projects whose rows were read in this round
        self._answered: set[TaskKey] = set()  # the tasks whose packs this round applies
        self._parked: list[InFlightMessage] = []  # that come out of the lot in this round
        self._clear: dict[str, LoadedProject] = {}
        self._closed: set[int] = set()  # the slots whose fence was closed before the last commit

    # -- a round ----------------------------------------------------------------------------------

    def apply(self, *, with_parked: bool) -> None:
        """Apply what the intake has read; it takes effect with ``write``.

        Args:
            with_parked: parked messages, too, that keep back no new ones.
        """
        self._looked_at.clear()
        self._parked.clear()
        self._clear.clear()
        self.touched.clear()
        if self._intake.is_empty:
            return
        self._parked = self._intake.parked(self._may_go if with_parked else self._is_kept_back)
        self._answered = {(p["project"], p["taskid"]) for p in self._tasks(QueueKind.STATUS)}
        self._read_ahead()
        with self._engine.counts.collecting():
            self._intake.run_parked(self._parked, self._apply)
            self._intake.run(QueueKind.NEWTASK, self._apply)
            self._intake.run(QueueKind.STATUS, self._apply)
            self._intake.run_put_off(self._apply_put_off)

    def write(self) -> None:
        """Commit what was applied.

        Raises:
            ClusterError: the task database is away, or the fence is closed.
        """
        if self.unfinished():
            self.commit()

    def acknowledge(self) -> None:
        """Acknowledge the messages whose effects are committed.

        Those of a slot whose fence was closed before the commit stay as they are, also if they
        wrote nothing.
        """
        if not self._intake.is_empty:
            with self._intake.setting_aside(self._closed):
                self._intake.settle()

    def finish(self) -> None:
        """Commit and acknowledge what an interrupted round has left.

        Raises:
            ClusterError: the task database or Redis is away, or the fence is closed; call it again.
        """
        if self.unfinished():
            self.write()
            self.acknowledge()
        self._intake.acknowledge_owed()

    def commit(self) -> Mapping[TaskKey, Exception]:
        """Write the rows of all tasks, with signs of life; see ``TaskEngine.commit``.

        Messages whose rows are refused fail, also if a job commits what a round could not.
        """
        self._closed = {
            slot for slot in self._intake.unsettled if not self._fence.is_slot_open(slot)
        }
        refused = self._engine.commit(self._heartbeat.beat)
        with self._intake.setting_aside(self._closed):
            self._intake.fail(refused)
        return refused

    def unfinished(self) -> set[int]:
        """Return the slots of which something was applied and is not finished."""
        projects = self._engine.taskdb.projects_with_writes
        return self._intake.unsettled | {self._fence.slot(project) for project in projects}

    # -- reading ahead ----------------------------------------------------------------------------

    def _read_ahead(self) -> None:
        """Read the rows of the tasks that this round may apply, all of a project at once."""
        self._engine.taskdb.forget_rows()
        wanted: dict[str, set[Any]] = {}
        for project, taskid in (*self._asked_for(), *self._stray_packs()):
            wanted.setdefault(project, set()).add(taskid)
        for project, taskids in wanted.items():
            try:
                self._engine.taskdb.read_ahead(project, taskids)
            except ClusterError:
                raise
            except Exception as error:  # whoever needs one of them finds out again
                logger.error("tasks of project %s cannot be read: %r", project, error)

    def _asked_for(self) -> Iterator[TaskKey]:
        """Yield the tasks of requests that are compared with rows."""
        for task in self._tasks(QueueKind.NEWTASK):
            project = self._engine.projects.get(task["project"])
            if project is None:
                continue
            key = project.name, task["taskid"]
            is_forced = task.get("schedule", {}).get("force_update", False)
            if is_forced or key[1] not in project.task_queue or key in self._answered:
                yield key

    def _stray_packs(self) -> Iterator[TaskKey]:
        """Yield the tasks of packs that may be answers to the former owner of their project."""
        inherited, projects = self._engine.inherited, self._engine.projects
        for name, taskid in self._answered if inherited else ():
            project = projects.get(name) if name in inherited else None
            if project is not None and not project.task_queue.is_processing(taskid):
                yield name, taskid

    def _tasks(self, kind: QueueKind) -> Iterator[dict[str, Any]]:
        """Yield the tasks, or packs, that this round applies, without messages that are none."""
        parked = (entry for entry in self._parked if entry.delivery.kind is kind)
        for entry in chain(parked, self._intake.untried(kind)):
            try:
                yield self._checked(entry)
            except BadMessage:  # whoever applies it finds out again
                continue

    # -- one message ------------------------------------------------------------------------------

    def _may_go(self, project: str) -> bool:
        return project not in self._projects.quarantine

    def _is_kept_back(self, project: str) -> bool:
        return self._may_go(project) and self._intake.is_behind(project)

    def _apply(self, entry: InFlightMessage) -> Disposition:
        """Apply a new task or a status pack."""
        self._heartbeat.step()
        message = self._checked(entry)
        try:
            if self._must_wait(entry, message["project"]):
                return Disposition.WAITS_FOR_PROJECT
            project = self._running_project(message)
        except ProjectWaits:
            return Disposition.WAITS_FOR_PROJECT
        if project is None:
            return Disposition.APPLIED
        if entry.delivery.kind is QueueKind.STATUS:
            self._apply_pack(project, message, entry.delivery.slot)
        elif self._engine.is_under_way(message):
            return Disposition.WAITS_FOR_PACK
        else:
            self._engine.request(message)
        return Disposition.APPLIED

    def _apply_pack(self, project: LoadedProject, pack: dict[str, Any], slot: int) -> None:
        if pack["taskid"] == "_on_get_info":
            self._learn(project, pack.get("track") or {})
        else:
            self._engine.on_task_status(own_task(pack))
            self._heartbeat.slot_meter.count(slot)

    def _learn(self, project: LoadedProject, track: Mapping[str, Any]) -> None:
        """Apply the settings that a script sent, except those that pyspider would fail on."""
        info, faults = usable_info(track.get("save"))
        if faults:
            logger.error("project %s: its script sent %s", project.name, ", ".join(faults))
        project.on_get_info(info, why_not(track))
        self._projects.news.add(self._fence.slot(project.name))
        self._engine.attention.on_project(project.name)
        logger.info("%s on_get_info %r", project.name, info)

    def _apply_put_off(self, entry: InFlightMessage) -> Disposition:
        """Apply a new task that waited for the pack of the same task."""
        task = self._checked(entry)
        with suppress(ProjectWaits):
            if self._may_go(task["project"]) and not self._comes_too_early(entry, task):
                is_done = self._apply_task(task)
                return Disposition.APPLIED if is_done else Disposition.WAITS_FOR_TASK
        return Disposition.WAITS_FOR_PACK

    def _comes_too_early(self, entry: InFlightMessage, task: Mapping[str, Any]) -> bool:
        """Return whether the pack may be on its way after which a new task runs again.

        Most links run nothing again, and what is in flight was crawled lately.
        """
        if not self._engine.is_under_way(task):
            return False
        asked, now = ScheduleTerms.of(task.get("schedule", {})), time.time()
        age = self._engine.default_schedule["age"]
        return restarts(asked, now - LATELY, {}, age, now) and self._intake.is_ahead(entry)

    def apply_task(self, task: Mapping[str, Any]) -> bool:
        """Check and apply one new task; return False if it must wait, because it is in flight."""
        check_task(task)
        return self._apply_task(task)

    def _apply_task(self, task: Mapping[str, Any]) -> bool:
        self._fence.check(task["project"])
        return self._running_project(task) is None or self._engine.request(task)

    def _checked(self, entry: InFlightMessage) -> dict[str, Any]:
        """Return the task, or pack, that a message is; it is checked once.

        Raises:
            BadMessage: it is none, or not of its slot; the error names what is wrong.
        """
        delivery = entry.delivery
        is_pack = delivery.kind is QueueKind.STATUS
        task: dict[str, Any] = with_url(delivery.body) if is_pack else delivery.body
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
        if not delivery.is_valid and is_pack:
            check_pack(task)
        entry.is_checked = True
        return task

    # -- its project ------------------------------------------------------------------------------

    def _must_wait(self, entry: InFlightMessage, project: str) -> bool:
        """Return whether a message waits for its project, or behind others that do."""
        if project in self._clear:
            return False
        if not self._may_go(project):
            return True
        return entry.parked is None and self._intake.is_behind(project)

    def _running_project(self, task: Mapping[str, Any]) -> LoadedProject | None:
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
        if not self._engine.task_verify(task):
            return None
        project = self._engine.projects[name]
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
        project = self._engine.projects.get(name)
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
            if self._may_go(name):
                self._projects.put_aside(name, error)
            raise ProjectWaits from error
        self._looked_at.add(name)
        if not is_there:
            logger.error("unknown project: %s", name)
        return is_there
