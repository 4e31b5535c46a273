"""Applier of messages: applies new tasks and status packs of the slot queues to projects."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec.structs import asdict
from pyspider.scheduler.scheduler import Project

from pyspider_zk.errors import BadMessage, ClusterError, DatabaseAway
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.tasks import (
    TaskKey,
    check_pack,
    check_task,
    own_task,
    sort_out,
    usable_info,
    with_url,
)
from pyspider_zk.queues.usual import UsualMessage
from pyspider_zk.scheduling.duplicates import Duplicates
from pyspider_zk.scheduling.entry import InFlightMessage
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.heartbeat import Heartbeat
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.round_size import RoundSize

logger = logging.getLogger("scheduler")

IGNORED = "ignore newtask %(project)s:%(taskid)s %(url)s"
"""What pyspider logs."""

LEFT_OUT_PER_TASK = 10
"""How many tasks that change nothing take as long as one that is applied."""

FAILURES = 3
"""How many tasks of a message may fail before the rest waits for its next try."""


class ProjectWaits(Exception):
    """A message's project cannot be loaded now, so its messages wait; the argument is its name."""


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
        self._tasks_left = 0
        self._looked_at: set[str] = set()  # the projects whose rows were read in this round
        self._clear: dict[str, Project] = {}
        self._undecided: set[TaskKey] = set()
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
        self._undecided.clear()
        self.touched.clear()
        limit = self._round_size.limit
        self._intake.read(limit, due=due, is_extra=is_extra)
        self._round_size.note(self._intake.read_of)
        if self._intake.is_empty and not self._scheduler.postponed:
            self._closed = set()
            return
        self._read_ahead(limit)
        with self._counting_known(), self._counts.collecting():
            self._apply_read(limit, is_extra)
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

    def _apply_read(self, limit: int, is_extra: bool) -> None:
        """Apply what was read, and what was parked before."""
        self._tasks_left = (limit + 1) // 2  # the other half is for new messages
        if not is_extra:
            self._intake.run_parked(
                lambda project: project not in self._projects.quarantine,
                {QueueKind.NEWTASK: self._apply_tasks, QueueKind.STATUS: self._apply_status},
            )
        self._tasks_left += limit // 2
        self._intake.run(QueueKind.NEWTASK, self._apply_tasks)
        self._intake.run(QueueKind.STATUS, self._apply_status)
        self._apply_postponed()

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

    def _read_ahead(self, limit: int) -> None:
        """Read the rows of the tasks that this round may apply, all of a project at once.

        What needs none, because it surely changes nothing, is left out of its message.
        """
        wanted: dict[str, set[Any]] = {}
        for entry in self._intake.untried(QueueKind.NEWTASK):
            left_out = self._unpack(entry)
            for task in entry.rest or ():
                self._undecided.add((task["project"], task["taskid"]))
                if self._needs_row(task):
                    wanted.setdefault(task["project"], set()).add(task["taskid"])
            limit -= len(entry.rest or ()) + left_out // LEFT_OUT_PER_TASK
            if limit <= 0:
                break
        for project, taskid in self._stray_packs():
            wanted.setdefault(project, set()).add(taskid)
        self._scheduler.read_ahead(wanted)

    def _stray_packs(self) -> Iterator[tuple[str, Any]]:
        """Yield the tasks of packs that may be answers to the former owner of their project."""
        if not self._scheduler.inherited:
            return
        for entry in self._intake.untried(QueueKind.STATUS):
            if entry.delivery.projects.isdisjoint(self._scheduler.inherited):
                continue
            name, taskid = entry.delivery.body["project"], entry.delivery.body["taskid"]
            project = self._scheduler.projects.get(name)
            if project is not None and not project.task_queue.is_processing(taskid):
                yield name, taskid

    def _needs_row(self, task: Mapping[str, Any]) -> bool:
        project = self._scheduler.projects.get(task["project"])
        return project is not None and (
            task["taskid"] not in project.task_queue
            or task.get("schedule", {}).get("force_update", False)
        )

    # -- status packs -----------------------------------------------------------------------------

    def _apply_status(self, entry: InFlightMessage) -> bool:
        self._heartbeat.step()
        entry.held, pack = {}, with_url(entry.delivery.body)
        if not self._is_usual(entry):
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
            self._apply_pack(project, pack, entry.delivery.slot)
            entry.applied.append(pack)
        return True

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

    def _apply_one(self, task: Mapping[str, Any]) -> bool:
        """Apply a task of a message; return False if it must wait, because it is in flight."""
        if self._scheduler.is_new(task):
            return self._apply_checked(task, is_new=True)
        if self._duplicates.ignores(task):
            logger.debug(IGNORED, task)
            return True
        return not self._scheduler.is_under_way(task) and self._apply_checked(task)

    def _is_pending(self, project: Project, taskid: Any) -> bool:
        return taskid in project.task_queue or self._duplicates.is_unloaded(project, taskid)

    def _apply_tasks(self, entry: InFlightMessage) -> bool:
        """Apply a message of one or many tasks; tasks that must wait for something are set apart.

        A message may contain a thousand tasks: those beyond a round's share are left over.

        Raises:
            BadMessage: an item of it is no task; the others have been applied.
        """
        if self._tasks_left <= 0 and entry.rest != []:
            return False
        self._unpack(entry)
        if not self._hold_back(entry):
            return False
        failure = self._apply_share(entry)
        if failure:
            raise failure
        if entry.fault and not entry.rest and not entry.must_wait:
            raise BadMessage(entry.fault)
        return not entry.rest

    def _unpack(self, entry: InFlightMessage) -> int:
        """Sort out the tasks of a message, unless that was done before.

        Returns:
            How many were left out, because they surely change nothing.
        """
        if entry.rest is not None:
            return 0
        usual = entry.delivery.usual if self._is_usual(entry) else None
        if usual is None:
            entry.rest, entry.fault = sort_out(entry.tasks, partial(self._check, entry))
            return 0
        kept = self._undone(entry, usual)
        left_out = len(usual.tasks) - entry.skipped - len(kept)
        is_whole = len(kept) == len(usual.tasks)
        entry.rest = entry.tasks if is_whole else [*map(usual.decoded, kept)]
        self.known += left_out
        return left_out

    def _undone(self, entry: InFlightMessage, usual: UsualMessage) -> Sequence[int]:
        """Return the numbers of a message's tasks without those that surely change nothing.

        If this round is to apply something of a task, what is said of it later must wait for that.
        """
        for project in usual.projects:
            if self._must_wait(entry, project):
                return range(entry.skipped, len(usual.tasks))
        ignores, kept = self._duplicates.ignores_unread, []
        is_said = logger.isEnabledFor(logging.DEBUG)
        for number, task in enumerate(usual.tasks[entry.skipped :], entry.skipped):
            key = task.project, task.taskid
            if key not in self._undecided and ignores(*key, task.schedule):
                if is_said:
                    logger.debug(IGNORED, asdict(task))
            else:
                self._undecided.add(key)
                kept.append(number)
        return kept

    def _hold_back(self, entry: InFlightMessage) -> bool:
        """Set apart the tasks whose projects must wait; return whether the others may go on."""
        rest = entry.rest or []
        projects = entry.delivery.projects or {task["project"] for task in rest}
        if projects <= self._clear.keys():
            return True
        waiting = {project for project in projects if self._must_wait(entry, project)}
        if not waiting:
            return True
        if entry.parked is not None:
            return False  # it waits in the parking lot already
        for task in rest:
            if task["project"] in waiting:
                entry.held.setdefault(task["project"], []).append(task)
        entry.rest = [task for task in rest if task["project"] not in waiting]
        return True

    def _apply_share(self, entry: InFlightMessage) -> Exception | None:
        """Apply as many tasks of a message as the round has left; return the first failure.

        One that fails does not block the others; a database that is away is not tried a thousand
        times. Tasks that failed stay in the entry, behind those that were not tried.
        """
        tasks, tried = entry.rest or [], 0
        failed: list[Any] = []
        failure: Exception | None = None
        before = len(entry.applied)
        try:
            for task in tasks[: max(0, self._tasks_left)]:
                self._heartbeat.step()
                self._tasks_left -= 1
                try:
                    (entry.applied if self._apply_one(task) else entry.put_off).append(task)
                except ClusterError:
                    raise
                except ProjectWaits as waits:
                    if entry.parked is not None:
                        break
                    entry.held.setdefault(str(waits), []).append(task)
                except Exception as error:  # each database has its own errors
                    failure = failure or error
                    failed.append(task)
                tried += 1
                if len(failed) == FAILURES:
                    break
        finally:
            entry.rest = [*tasks[tried:], *failed]
            self._requests += len(entry.applied) - before
        return failure

    def _apply_postponed(self) -> None:
        """Apply tasks that were put off, by pyspider itself or until the packs were applied."""
        postponed = self._scheduler.postponed
        for task in list(postponed):
            if task["project"] not in self._scheduler.projects or self._apply_put_off(task):
                postponed.remove(task)
        self._intake.run_put_off(self._apply_put_off)

    def _apply_put_off(self, task: Mapping[str, Any]) -> bool:
        try:
            applied = task["project"] not in self._projects.quarantine and self.apply_task(task)
        except ProjectWaits:
            return False
        self._requests += applied
        return applied

    # -- their projects ---------------------------------------------------------------------------

    def _check(self, entry: InFlightMessage, task: Any) -> None:
        """Make sure that a message in a slot's queue is a task, or pack, of that slot.

        Raises:
            BadMessage: it is not; the message names what is wrong.
        """
        check_task(task)
        slot, found = self._fence.slot(task["project"]), entry.delivery.slot
        if slot != found:
            raise BadMessage(
                f"project {task['project']} is of slot {slot}, this is the queue of slot {found}:"
                " was it filled by a cluster with another number of slots?"
            )

    def _is_usual(self, entry: InFlightMessage) -> bool:
        """Return whether a message surely passes the checks, as was seen when it was decoded."""
        projects, slot = entry.delivery.projects, entry.delivery.slot
        for project in projects:
            if self._fence.slot(project) != slot:
                return False
        return bool(projects)

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
            raise ProjectWaits(name) from error
        except ClusterError:
            raise
        except Exception as error:
            if name not in self._projects.quarantine:
                self._projects.put_aside(name, error)
            raise ProjectWaits(name) from error
        self._looked_at.add(name)
        if not is_there:
            logger.error("unknown project: %s", name)
        return is_there
