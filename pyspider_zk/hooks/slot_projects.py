"""pyspider's scheduler with the projects of some slots in memory, which come and go."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project, Scheduler

from pyspider_zk.core.records import Load
from pyspider_zk.core.tasks import usable_schedule
from pyspider_zk.hooks.agenda import Agenda
from pyspider_zk.hooks.catalogue import FIELDS, Catalogue
from pyspider_zk.hooks.due_queue import DueQueue
from pyspider_zk.hooks.gate import Gate
from pyspider_zk.hooks.handoff import (
    Part,
    last_tick,
    project_part,
    restore_processing,
    restore_script_info,
    restore_state,
)
from pyspider_zk.hooks.meter import Meter
from pyspider_zk.hooks.tables import Tables, drop_table, with_fresh_tables
from pyspider_zk.hooks.ticks import Ticks
from pyspider_zk.hooks.windows import drop_counters, dump_windows, load_windows

logger = logging.getLogger("scheduler")

ROWS_PER_BEAT = 1000
"""How many rows are loaded between two signs of life."""

ZOMBIE_WINDOW = 30.0
"""Seconds after a takeover until the rows are looked at again.

An owner that was stopped between its gate and its write may still write when it goes on, after the
next one has loaded the rows.
"""


class SlotProjects(Scheduler):
    """Holds the projects of the slots that the gate holds, and acts on them if it is open.

    Threads: one thread owns the scheduler; ``lock`` is held while ``projects`` changes, and by
    others while they read it. The constructor does no I/O.

    Attributes:
        lock: the project-set lock.
        gate: what is held, and whether it may be acted on; give it its ``ownership`` to begin.
    """

    def __init__(self, *args: Any, slots: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for manager in self._cnt.values():
            manager.counters.clear()  # read from files that all schedulers of a machine share
        self._force_update_project = False
        self._looked_at = float("-inf")  # by the clock that nobody sets
        self.lock = threading.RLock()
        self.gate = Gate(slots)
        self._catalogue = Catalogue(slots)
        self._ticks = Ticks()
        self._parts: dict[str, Part] = {}
        self._inherited: dict[str, set[str]] = {}
        self._counted: set[str] = set()
        self._looks = Agenda(self._look)
        self._second_looks = Agenda(self._look_for_stranded)
        self._meter = Meter()
        self._load = Load()
        self._load_measured = float("-inf")
        self._unsaved: set[int] = set()
        self._postpone_request: list[dict[str, Any]] = []
        self._failed_select: Exception | None = None
        self._tables = Tables(self.taskdb)

    def _beat(self) -> None:
        if self.gate.ownership is not None:
            self.gate.ownership.beat()
        now = time.monotonic()
        if now - self._load_measured > 1:
            self._load_measured = now
            self._load = Load(len(self.projects), len(self), *self._meter.rates())

    # -- the gate before every effect -----------------------------------------------------------

    def insert_task(self, task: dict[str, Any]) -> Any:
        """Insert a task into the task database, if the gate is open."""
        self.gate.check(task["project"])
        try:
            return super().insert_task(task)
        except Exception:
            self._tables.look_again()  # there may be a table that we do not know of
            raise

    def on_request(self, task: dict[str, Any]) -> Any:
        """Apply a request; that a project has no table yet is known without a look at all."""
        project = self.projects[task["project"]]
        if self._tables.may_have(project.name) or self.is_full(project):
            return super().on_request(task)
        return self.on_new_request(task)

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

    def _check_select(self) -> Any:
        """Select what is due and send it."""
        self._failed_select = None
        selected = super()._check_select()
        if self._failed_select is not None:
            raise self._failed_select
        return selected

    def _load_put_task(self, project: str, taskid: str) -> None:
        """Send a selected task, or put it back where it was selected from.

        One whose row cannot be read stays in processing, as pyspider leaves bad ones: it must not
        fail every round. Those selected with it go back.
        """
        if self.gate.is_open(project) and self._failed_select is None:
            try:
                super()._load_put_task(project, taskid)
            except Exception as error:  # each database has errors of its own
                self._failed_select = error
            return
        tasks = self.projects[project].task_queue
        selected = tasks.processing[taskid]
        tasks.done(taskid)
        tasks.put(taskid, selected.priority)

    # -- projects of slots that come and go -----------------------------------------------------

    def load_slot(self, slot: int, parts: Mapping[str, Part]) -> None:
        """Bring a slot's projects into memory, with what their former owner left.

        That may know projects that came after the last look here; those that only a dead owner
        had heard of are found by another look, in the next round.
        """
        self._tables.look_again()
        self._force_update_project = True
        for name in sorted({*self._catalogue.names(slot), *parts}):
            self._parts[name] = parts.get(name, {})
            self._looks.put(name, float("-inf"))
        self._looks.work(time.monotonic())

    def forget_slots(self, slots: Collection[int]) -> None:
        """Drop the projects of slots from memory, with what was selected and not sent yet."""
        self._unsend(lambda project: self.gate.slot(project) in slots)
        for name in {*self.projects, *self._parts, *self._looks.names()}:
            if self.gate.slot(name) in slots:
                self._forget(name)

    def parts(self, slots: Collection[int]) -> dict[str, Part]:
        """Return what no database holds of the projects of slots.

        A project that was handed over and could not be loaded yet is passed on as it came.
        """
        found = {name: part for name, part in self._parts.items() if part.get("clean")}
        unsent = _by_project(reversed(self._send_buffer))
        postponed = _by_project(self._postpone_request)
        for name, project in self.projects.items():
            if self.gate.slot(name) in slots:
                found[name] = {
                    **project_part(project, unsent.get(name, ()), postponed.get(name, ())),
                    "counters": dump_windows(self._cnt, name),
                    "tick": self._ticks.last(name),
                }
        return {name: part for name, part in found.items() if self.gate.slot(name) in slots}

    def _update_projects(self) -> None:
        """Look at the project database, as often as pyspider does, and compare row by row."""
        now = time.monotonic()
        due = self._looked_at + self.UPDATE_PROJECT_INTERVAL <= now
        if due or self._force_update_project:
            self._force_update_project = False  # before reading, so that no later call is lost
            self._compare()
            self._looked_at = now
        self._looks.work(now)

    def _compare(self) -> None:
        changes = self._catalogue.refresh(self.projectdb.get_all(fields=FIELDS))
        for name in changes.gone & self.projects.keys():
            logger.warning("project %s is gone from the database", name)
            self._forget(name)
        for name in filter(self.gate.holds, changes.changed):
            self._looks.put(name, float("-inf"))

    def _look(self, name: str) -> None:
        self._beat()
        if not self._look_at(name):
            self._parts.pop(name, None)

    def _look_at(self, name: str) -> bool:
        """Read a project's row and bring memory in step; return whether there is such a row."""
        info = self.projectdb.get(name)
        if info:
            self._update_project(info)
        return bool(info)

    def _update_project(self, project: dict[str, Any]) -> None:
        """Create or update one project of a slot that is held."""
        name = project["name"]
        is_new = name not in self.projects
        if is_new:
            revived = self._revive(project)
            with self.lock:
                self.projects[name] = revived
        try:
            super()._update_project(project)
        except Exception:
            if is_new:  # half of it would take the other half's messages for strangers
                self._unload(name)
            raise
        part = self._parts.pop(name, {})
        if part.get("clean"):
            self._send_buffer.extend(reversed(part["unsent"]))
            self._postpone_request.extend(part["postponed"])

    def _revive(self, info: dict[str, Any]) -> Project:
        """Make a project from its row and what the former owner left of it."""
        project = Project(self, info)
        part = self._parts.get(project.name, {})
        restore_script_info(project, part)
        load_windows(self._cnt, project.name, part.get("counters", {}))
        self._ticks.start(project.name, last_tick(part) or int(time.time()))
        if part.get("clean"):
            restore_state(project, part)
        return project

    def _load_tasks(self, project: Project) -> None:
        """Load the ACTIVE rows, except those known to be with fetcher or processor.

        After a death nobody knows which these are; what is due then is marked as inherited, for
        a status pack of the former owner's fetch may still come.
        """
        self._update_project_cnt(project.name)
        project.task_queue.priority_queue = DueQueue()  # in place of an empty one
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
            self._second_looks.put(project.name, time.monotonic() + ZOMBIE_WINDOW)
        self._cnt["all"].value((project.name, "pending"), len(project.task_queue))

    def _check_stranded(self) -> None:
        """Look at the rows of projects taken over from the dead once more, when it is time."""
        now = time.monotonic()
        if self._second_looks.is_due(now):
            self._tables.look_again()
            self._second_looks.work(now)

    def _look_for_stranded(self, name: str) -> None:
        tasks = self.projects[name].task_queue
        for taskid, schedule in self._active_rows(name):
            if taskid not in tasks:
                logger.info("found stranded task %s:%s", name, taskid)
                tasks.put(taskid, schedule["priority"], schedule["exetime"])

    def _active_rows(self, project: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield task id and schedule of the rows to schedule, with signs of life in between.

        A large project takes longer to load than a lease lasts.
        """
        if not self._tables.may_have(project):
            return
        rows = self.taskdb.load_tasks(self.taskdb.ACTIVE, project, self.scheduler_task_fields)
        for count, row in enumerate(rows):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            yield row["taskid"], {**self.default_schedule, **usable_schedule(row.get("schedule"))}

    def _update_project_cnt(self, project_name: str) -> None:
        """Count a project's rows once, not at every update."""
        if project_name not in self._counted:
            if self._tables.may_have(project_name):
                count = super()._update_project_cnt
                with_fresh_tables(self.taskdb, lambda: count(project_name))
            self._counted.add(project_name)

    def _forget(self, name: str) -> None:
        """Drop a project from memory, with what was to be done about it."""
        self._unload(name)
        self._parts.pop(name, None)
        self._looks.drop(name)

    def _unload(self, name: str) -> None:
        with self.lock:
            self.projects.pop(name, None)
            drop_counters(self._cnt, name)
        self._inherited.pop(name, None)
        self._ticks.drop(name)
        self._second_looks.drop(name)
        self._counted.discard(name)

    def _check_delete(self) -> None:
        """Delete the projects that pyspider would, one gate each."""
        deadline = time.time() - self.DELETE_TIME
        for project in list(self.projects.values()):
            due = project.db_status == "STOP" and project.updatetime <= deadline
            if due and "delete" in self.projectdb.split_group(project.group):
                self.delete(project.name)

    # -- what operations do to one project ------------------------------------------------------

    def refresh(self, name: str) -> None:
        """Bring memory in step with a project's row; what is off sends nothing more."""
        if not self._look_at(name):
            self.forget(name)
        elif not self.projects[name].active:
            self._unsend(name.__eq__)

    def forget(self, name: str) -> None:
        """Drop a project from memory, with what was selected and not sent yet."""
        self._unsend(name.__eq__)
        self._forget(name)

    def delete(self, name: str) -> None:
        """Delete a project and all that is known of it.

        What fails in the middle can be repeated: the row goes after the tables, memory last.

        Raises:
            GateClosed: in the middle of it, maybe.
        """
        logger.warning("deleting project: %s!", name)
        for database in (self.taskdb, self.resultdb):
            self.gate.check(name)
            drop_table(database, name)
        self.gate.check(name)
        self.projectdb.drop(name)
        self.forget(name)
        self._unsaved.add(self.gate.slot(name))

    def find_task(self, project: str, taskid: str, fields: list[str]) -> dict[str, Any] | None:
        """Return columns of a task's row, if there is one."""
        if not self._tables.may_have(project):
            return None
        row: dict[str, Any] | None = with_fresh_tables(
            self.taskdb, lambda: self.taskdb.get_task(project, taskid, fields)
        )
        return row

    def is_full(self, project: Project) -> bool:
        """Tell whether pyspider would pass over new tasks of a project (``INQUEUE_LIMIT``)."""
        return bool(0 < self.INQUEUE_LIMIT <= len(project.task_queue))

    def _unsend(self, is_meant: Callable[[str], bool]) -> None:
        """Drop what is to be sent, or to be applied later, for the projects that are meant."""
        for waiting in (self._send_buffer, self._postpone_request):
            for task in [task for task in waiting if is_meant(task["project"])]:
                waiting.remove(task)


def _by_project(tasks: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        found.setdefault(task["project"], []).append(task)
    return found
