"""pyspider's scheduler for the projects of some slots, which come and go."""

import logging
import queue
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project, Scheduler
from pyspider.scheduler.task_queue import InQueueTask

from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import Load
from pyspider_zk.core.tasks import check_task, sort_out
from pyspider_zk.errors import BadMessage
from pyspider_zk.hooks.catalogue import FIELDS, Catalogue
from pyspider_zk.hooks.gate import Gate
from pyspider_zk.hooks.handoff import (
    Part,
    project_part,
    restore_processing,
    restore_script_info,
    restore_state,
)
from pyspider_zk.hooks.holdings import Holdings
from pyspider_zk.hooks.intake import Entry, Intake
from pyspider_zk.hooks.ticks import Ticks
from pyspider_zk.hooks.windows import drop_counters, dump_windows, load_windows
from pyspider_zk.queues.api import Queues

logger = logging.getLogger("scheduler")

ROWS_PER_BEAT = 1000
"""How many rows are loaded between two signs of life."""

ZOMBIE_WINDOW = 30.0
"""Seconds after a takeover until the rows are looked at again.

An owner that was stopped between its gate and its write may still write when it goes on, after the
next one has loaded the rows.
"""


class SlotScheduler(Scheduler):
    """Schedules the projects of the slots that the gate holds.

    All decisions about tasks are pyspider's own. This class decides which projects are in
    memory, where messages come from, and when nothing may be done.

    Threads: the one that calls ``run_once`` owns the scheduler; ``lock`` is held while
    ``projects`` changes, and by others while they read it. The constructor does no I/O.

    Attributes:
        lock: the project-set lock.
        gate: what is held, and whether it may be acted on; give it its ``ownership`` to begin.
    """

    def __init__(self, *args: Any, slots: int, queues: Queues, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for manager in self._cnt.values():
            manager.counters.clear()  # read from files that all schedulers of a machine share
        self._force_update_project = False
        self._last_update_project = 0.0
        self._postpone_request: list[dict[str, Any]] = []
        self.queues = queues
        self.lock = threading.RLock()
        self.gate = Gate(slots)
        self._catalogue = Catalogue(slots)
        self._intake = Intake(queues.slot_queues)
        self._holdings = Holdings(self.gate, self._intake, queues.records, self)
        self._ticks = Ticks()
        self._parts: dict[str, Part] = {}
        self._inherited: dict[str, set[str]] = {}
        self._counted: set[str] = set()
        self._look_again: dict[str, float] = {}
        self._unsaved: set[int] = set()
        self._tasks_left = 0
        self._load = Load()
        self._load_measured = float("-inf")

    # -- one round ------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Follow the assignment, take messages in, send tasks out, once."""
        self._beat()
        self._update_projects()
        ownership = self.gate.ownership
        if ownership is None:
            return
        self._holdings.follow(ownership)
        if ownership.leading:
            self.queues.inbox.forward(self.LOOP_LIMIT)
        if self.gate.held and self.gate.all_open():
            self._check_task_done()
            self._check_request()
            self._check_cronjob()
            self._check_select()
            self._check_delete()
            self._check_stranded()
        self._try_dump_cnt()

    def _beat(self) -> None:
        if self.gate.ownership is not None:
            self.gate.ownership.beat()
        now = time.monotonic()
        if now - self._load_measured > 1:
            self._load_measured = now
            self._load = Load(projects=len(self.projects), pending=len(self))

    # -- the gate before every effect -----------------------------------------------------------

    def insert_task(self, task: dict[str, Any]) -> Any:
        """Insert a task into the task database, if the gate is open."""
        self.gate.check(task["project"])
        return super().insert_task(task)

    def update_task(self, task: dict[str, Any]) -> Any:
        """Update a task in the task database, if the gate is open."""
        self.gate.check(task["project"])
        return super().update_task(task)

    def send_task(self, task: dict[str, Any], force: bool = True) -> None:
        """Dispatch a task to the fetcher; a closed gate is treated as a full queue.

        A task of a slot that is not held was sent by hand, over XML-RPC, while the slot moved.
        """
        if self.gate.is_open(task["project"]) or not self.gate.holds(task["project"]):
            super().send_task(task, force)
        elif force:
            self._send_buffer.appendleft(task)
        else:
            raise queue.Full

    def _load_put_task(self, project: str, taskid: str) -> None:
        """Send a selected task, or put it back where it was selected from."""
        if self.gate.is_open(project):
            super()._load_put_task(project, taskid)
            return
        tasks = self.projects[project].task_queue
        selected = tasks.processing[taskid]
        tasks.done(taskid)
        tasks.put(taskid, selected.priority)

    # -- projects of slots that come and go -----------------------------------------------------

    def load_slot(self, slot: int, parts: Mapping[str, Part]) -> None:
        """Bring a slot's projects into memory, with what their former owner left."""
        for name in self._catalogue.names(slot):
            self._parts[name] = parts.get(name, {})
            self._look_at(name)

    def forget_slots(self, slots: Collection[int]) -> None:
        """Drop the projects of slots from memory."""
        for name in [name for name in self.projects if self.gate.slot(name) in slots]:
            self._forget(name)

    def pull_unsent(self, slots: Collection[int]) -> dict[str, list[Any]]:
        """Take the tasks of slots out of the send buffer, oldest first, by project."""
        unsent: dict[str, list[Any]] = {}
        for task in list(self._send_buffer):
            if self.gate.slot(task["project"]) in slots:
                self._send_buffer.remove(task)
                unsent.setdefault(task["project"], []).insert(0, task)
        return unsent

    def parts(self, slots: Collection[int], unsent: Mapping[str, list[Any]]) -> dict[str, Part]:
        """Return what no database holds of the projects of slots."""
        return {
            name: {
                **project_part(project, unsent.get(name, ())),
                "counters": dump_windows(self._cnt, name),
                "tick": self._ticks.last(name),
            }
            for name, project in self.projects.items()
            if self.gate.slot(name) in slots
        }

    def _update_projects(self) -> None:
        """Look at the project database, as often as pyspider does, and compare row by row."""
        now = time.time()
        due = self._last_update_project + self.UPDATE_PROJECT_INTERVAL <= now
        if not (due or self._force_update_project):
            return
        self._force_update_project = False  # before reading, so that no later call is lost
        changes = self._catalogue.refresh(self.projectdb.get_all(fields=FIELDS))
        self._last_update_project = now
        for name in changes.gone & self.projects.keys():
            logger.warning("project %s is gone from the database", name)
            self._forget(name)
        for name in filter(self.gate.holds, changes.changed):
            self._look_at(name)

    def _look_at(self, name: str) -> bool:
        """Read a project's row and bring memory in step; return whether there is such a row."""
        info = self.projectdb.get(name)
        if info:
            self._update_project(info)
        return bool(info)

    def _update_project(self, project: dict[str, Any]) -> None:
        """Create or update one project of a slot that is held."""
        if project["name"] not in self.projects:
            revived = self._revive(project)
            with self.lock:
                self.projects[revived.name] = revived
        super()._update_project(project)
        self._parts.pop(project["name"], None)

    def _revive(self, info: dict[str, Any]) -> Project:
        """Make a project from its row and what the former owner left of it."""
        project = Project(self, info)
        part = self._parts.get(project.name, {})
        restore_script_info(project, part)
        load_windows(self._cnt, project.name, part.get("counters", {}))
        self._ticks.start(project.name, part.get("tick") or int(time.time()))
        if part.get("clean"):
            restore_state(project, part)
            self._send_buffer.extend(reversed(part["unsent"]))
        return project

    def _load_tasks(self, project: Project) -> None:
        """Load the ACTIVE rows, except those known to be with fetcher or processor.

        After a death nobody knows which these are; what is due then is marked as inherited, for
        a status pack of the former owner's fetch may still come.
        """
        self._update_project_cnt(project.name)
        part = self._parts.get(project.name, {})
        clean = bool(part.get("clean"))
        away = restore_processing(project, part) if clean else set()
        inherited = self._inherited.setdefault(project.name, set())
        now = time.time()
        for taskid, schedule in self._active_rows(project.name):
            if taskid in away:
                continue
            project.task_queue.put(taskid, schedule["priority"], schedule["exetime"])
            if not clean and schedule["exetime"] <= now:
                inherited.add(taskid)
        if not clean:
            self._look_again[project.name] = time.monotonic() + ZOMBIE_WINDOW
        self._cnt["all"].value((project.name, "pending"), len(project.task_queue))

    def _check_stranded(self) -> None:
        """Look at the rows of projects taken over from the dead once more, when it is time."""
        now = time.monotonic()
        for name in [name for name, due in self._look_again.items() if due <= now]:
            del self._look_again[name]
            tasks = self.projects[name].task_queue
            for taskid, schedule in self._active_rows(name):
                if taskid not in tasks:
                    logger.info("found stranded task %s:%s", name, taskid)
                    tasks.put(taskid, schedule["priority"], schedule["exetime"])

    def _active_rows(self, project: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield task id and schedule of the rows to schedule, with signs of life in between.

        A large project takes longer to load than a lease lasts.
        """
        # pyspider's databases list their tables every ten minutes, or when a task is asked for
        # that has none: without this, a project born at another member would have no rows.
        self.taskdb.get_task(project, "", ["taskid"])
        rows = self.taskdb.load_tasks(self.taskdb.ACTIVE, project, self.scheduler_task_fields)
        for count, row in enumerate(rows):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            yield row["taskid"], {**self.default_schedule, **row.get("schedule", {})}

    def _update_project_cnt(self, project_name: str) -> None:
        """Count a project's rows once, not at every update."""
        if project_name not in self._counted:
            super()._update_project_cnt(project_name)
            self._counted.add(project_name)

    def _forget(self, name: str) -> None:
        """Drop a project from memory."""
        with self.lock:
            self.projects.pop(name, None)
            drop_counters(self._cnt, name)
        self._inherited.pop(name, None)
        self._ticks.drop(name)
        self._parts.pop(name, None)
        self._look_again.pop(name, None)
        self._counted.discard(name)

    def _check_delete(self) -> None:
        """Delete the projects that pyspider would, one gate each."""
        deadline = time.time() - self.DELETE_TIME
        for project in list(self.projects.values()):
            marked = "delete" in self.projectdb.split_group(project.group)
            if project.db_status == "STOP" and marked and project.updatetime <= deadline:
                self.gate.check(project.name)
                self._delete(project.name)

    def _delete(self, name: str) -> None:
        logger.warning("deleting project: %s!", name)
        self._forget(name)
        self.taskdb.drop(name)
        self.projectdb.drop(name)
        if self.resultdb:
            self.resultdb.drop(name)

    # -- messages -------------------------------------------------------------------------------

    def _check_task_done(self) -> int:
        """Apply status packs."""
        return self._intake.run(Kind.STATUS, self.LOOP_LIMIT, self._apply_status)

    def _apply_status(self, entry: Entry) -> bool:
        pack = entry.delivery.body
        project = self._running_project(pack)
        if project is None:
            return True
        self.gate.check(project.name)
        if pack["taskid"] == "_on_get_info":
            info = pack.get("track", {}).get("save") or {}
            project.on_get_info(info)
            self._unsaved.add(self.gate.slot(project.name))
            logger.info("%s on_get_info %r", project.name, info)
        else:
            self.on_task_status(pack)
        return True

    def _running_project(self, task: Any) -> Project | None:
        """Return the project of a message, None if it does not run.

        Raises:
            BadMessage: the message is no task.
        """
        self._beat()
        check_task(task)
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
        postponed, self._postpone_request = self._postpone_request, []
        for task in postponed:
            if task["project"] in self.projects and not self._apply_task(task):
                self._postpone_request.append(task)
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
            entry.rest, entry.fault = sort_out(body if isinstance(body, list) else [body])
        now, later = entry.rest[: self._tasks_left], entry.rest[self._tasks_left :]
        self._tasks_left -= len(now)
        entry.rest = [task for task in now if not self._apply_task(task)] + later
        if entry.fault and not entry.rest:
            raise BadMessage(entry.fault)
        return not entry.rest

    def on_old_request(self, task: dict[str, Any], old_task: dict[str, Any]) -> Any:
        """Apply a request for a task that has a row.

        An ACTIVE row that is not in memory was written by an owner that did not live, or was
        paused, to see its message through.
        """
        tasks = self.projects[task["project"]].task_queue
        if old_task["status"] == self.taskdb.ACTIVE and task["taskid"] not in tasks:
            self.put_task({**task, "schedule": old_task.get("schedule") or {}})
        return super().on_old_request(task, old_task)

    def _apply_task(self, task: dict[str, Any]) -> bool:
        """Apply one new task; return False if it must wait until the task is not in processing."""
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
        self._holdings.save(self._unsaved)
        self._unsaved.clear()
        super()._try_dump_cnt()

    def _dump_cnt(self) -> None:
        """Save counters and script information of all slots, for whoever comes after a death."""
        self._holdings.save(set(self.gate.held))
