"""pyspider's scheduler with the projects of some slots in memory, which come and go."""

import heapq
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspider.scheduler.scheduler import Project, Scheduler

from pyspider_zk.cluster.fence import Fence
from pyspider_zk.cluster.records import Load
from pyspider_zk.databases.active_rows import active_rows
from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import PATIENCE, Guarded
from pyspider_zk.databases.tables import Tables, drop_table, with_fresh_tables
from pyspider_zk.errors import ClusterError, DatabaseAway
from pyspider_zk.projects.index import FIELDS, ProjectIndex
from pyspider_zk.projects.rows import is_number, row_faults, split_group
from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.clock_jumps import ClockJumps, trim_counters, trim_project
from pyspider_zk.scheduling.counters import drop_counters, dump_windows, load_windows
from pyspider_zk.scheduling.cron import Cron
from pyspider_zk.scheduling.due_queue import DueQueue
from pyspider_zk.scheduling.handoff import (
    Part,
    kept,
    last_tick,
    project_part,
    restore_processing,
    restore_script_info,
    restore_state,
)
from pyspider_zk.scheduling.meter import Meter
from pyspider_zk.scheduling.quarantine import AtFault, Quarantine
from pyspider_zk.scheduling.retry_queue import RetryQueue
from pyspider_zk.zookeeper.clock import boottime

logger = logging.getLogger("scheduler")

ROWS_PER_BEAT = 1000
"""How many rows are loaded between two signs of life."""

LOGGED = ("pending", "success", "retry", "failed")
"""The counters that are logged each minute."""

LABELS = ("new", "success", "retry", "failed")
"""What the log calls them."""

PARTS = ("schedule", "fetch", "process", "track")
"""What of a task pyspider takes for mappings."""

MOST_SAID = 3
"""How many tasks that cannot be sent are told of in one round."""

LOOKING = 0.02
"""Share of the loop's time that looks at all projects may take: many are looked at less often."""

ZOMBIE_WINDOW = 30.0
"""Seconds after a takeover until the rows are looked at again.

An owner that was stopped between its fence and its write may still write when it goes on, after the
next one has loaded the rows.
"""


class SlotProjects(Scheduler):
    """Holds the projects of the slots that the fence holds, and acts on them if it is open.

    Threads: one thread owns the scheduler; ``lock`` is held while ``projects`` changes, and by
    others while they read it. The constructor does no I/O.

    Attributes:
        lock: the project-set lock.
        fence: what is held, and whether it may be acted on; give it its ``ownership`` to begin.
        quarantine: projects of held slots that are at fault, and therefore not in memory.
    """

    UPDATE_PROJECT_INTERVAL = 10
    """Seconds between two looks at the short columns of all projects, at least."""

    def __init__(self, *args: Any, slots: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._breakers = {kind: Breaker(kind) for kind in ("taskdb", "projectdb", "resultdb")}
        self._guard_databases()
        for manager in self._cnt.values():
            manager.counters.clear()  # read from files that all schedulers of a machine share
        self._force_update_project = False
        self._look_due = float("-inf")  # by the clock that nobody sets
        self.lock = threading.RLock()
        self.fence = Fence(slots)
        self._index = ProjectIndex(slots)
        self._cron = Cron()
        self._parts: dict[str, Part] = {}
        self._inherited: dict[str, set[str]] = {}
        self._counted: set[str] = set()
        self._looks = RetryQueue(self._look)
        self._second_looks = RetryQueue(self._look_for_stranded)
        self._meter = Meter()
        self._load = Load()
        self._load_measured = float("-inf")
        self._unsaved: set[int] = set()
        self._postpone_request: list[dict[str, Any]] = []
        self._nameless: set[str] = set()
        self._clock_jumps = ClockJumps()
        self._failed_select: ClusterError | None = None
        self._bad_selects = 0
        self._tables = Tables(self.taskdb)
        self.quarantine = Quarantine()

    def _guard_databases(self) -> None:
        for kind, breaker in self._breakers.items():
            database = getattr(self, kind)
            if database is not None:
                setattr(self, kind, Guarded(database, breaker, self._lease_left))

    def _lease_left(self) -> float:
        """Return for how long a statement may wait: no write must land after the lease.

        Without a lease there are no writes.
        """
        ownership = self.fence.ownership
        left = PATIENCE if ownership is None else ownership.view.lease_until - boottime()
        return math.floor(left * 20) / 20 if 0 < left < PATIENCE else PATIENCE

    @property
    def away(self) -> tuple[str, ...]:
        """The names of databases that do not answer."""
        return tuple(kind for kind, breaker in self._breakers.items() if breaker.is_open)

    def beat(self) -> None:
        """Show that the loop runs."""
        self._beat()

    def _beat(self) -> None:
        if self.fence.ownership is not None:
            self.fence.ownership.beat()
        now = time.monotonic()
        if now - self._load_measured > 1:
            self._load_measured = now
            self._load = Load(
                len(self.projects),
                len(self),
                *self._meter.rates(),
                quarantined=len(self.quarantine),
                away=self.away,
            )

    # -- the fence before every effect -----------------------------------------------------------

    def insert_task(self, task: dict[str, Any]) -> Any:
        """Insert a task into the task database, if the fence is open."""
        self.fence.check(task["project"])
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

    def on_old_request(self, task: dict[str, Any], old_task: dict[str, Any]) -> Any:
        """Apply a request for a task that has a row, of which only what can be used counts."""
        crawled = old_task.get("lastcrawltime")
        usable = {
            "schedule": usable_schedule(old_task.get("schedule")),
            "lastcrawltime": crawled if is_number(crawled) else 0,
        }
        return super().on_old_request(task, {**old_task, **usable})

    def update_task(self, task: dict[str, Any]) -> Any:
        """Update a task in the task database, if the fence is open."""
        self.fence.check(task["project"])
        return super().update_task(task)

    def send_task(self, task: dict[str, Any], force: bool = True) -> None:
        """Dispatch a task to the fetcher; a closed fence is treated as a full queue.

        A task of a slot that is not held was sent by hand, over XML-RPC, while the slot moved.
        """
        if self.fence.is_open(task["project"]) or not self.fence.holds(task["project"]):
            super().send_task(task, force)
        elif force:
            self._send_buffer.appendleft(task)
        else:
            raise queue.Full

    def on_select_task(self, task: dict[str, Any]) -> Any:
        """Send a task to the fetcher; a part that is no mapping, as NULL may be read, is empty."""
        for part in PARTS:
            if part in task and not isinstance(task[part], dict):
                task[part] = {}
        return super().on_select_task(task)

    def _check_select(self) -> Any:
        """Select what is due and send it; a project that cannot be selected from is put aside."""
        self._failed_select = None
        self._bad_selects = 0
        since = time.time()
        try:
            selected = super()._check_select()
        except ClusterError:
            raise
        except Exception:
            if not self._put_aside_unselectable():
                raise
            self._select_again(since)
            return {}
        if self._failed_select is not None:
            raise self._failed_select
        return selected

    def _put_aside_unselectable(self) -> bool:
        """Find out whose fault it was that nothing could be selected; return whether anybody's."""
        before = len(self.projects)
        for name, project in list(self.projects.items()):
            with self.isolating(name):
                if project.active and not project.paused:
                    project.task_queue.check_update()
                    project.task_queue.bucket.get()
        return len(self.projects) < before

    def _select_again(self, since: float) -> None:
        """Put back what was selected since then: none of it was sent."""
        for project in self.projects.values():
            tasks = project.task_queue
            selected = tasks.processing.queue_dict.values()
            for item in [*selected]:
                if item.exetime >= since + tasks.processing_timeout:
                    tasks.done(item.taskid)
                    tasks.put(item.taskid, item.priority)

    def _load_put_task(self, project: str, taskid: str) -> None:
        """Send a selected task, or put it back where it was selected from.

        One that cannot be read or sent stays in processing, as pyspider leaves bad ones: it must
        not fail every round. While a database is away all go back.
        """
        if self.fence.is_open(project) and self._failed_select is None:
            try:
                super()._load_put_task(project, taskid)
            except ClusterError as error:
                self._failed_select = error
            except Exception:
                self._bad_selects += 1
                if self._bad_selects <= MOST_SAID:
                    logger.exception("task %s:%s cannot be sent", project, taskid)
                return
            else:
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
        for name in sorted({*self._index.names(slot), *parts}):
            self._parts[name] = parts.get(name, {})
            self._looks.put(name, float("-inf"))
        with suppress(DatabaseAway):
            self._looks.work(time.monotonic())

    def forget_slots(self, slots: Collection[int]) -> None:
        """Drop the projects of slots from memory, with what was selected and not sent yet."""
        self._unsend(lambda project: self.fence.slot(project) in slots)
        for name in {
            *self.projects,
            *self._parts,
            *self._looks.names(),
            *self.quarantine.names(),
        }:
            if self.fence.slot(name) in slots:
                self._forget(name)

    def parts(self, slots: Collection[int], *, whole: bool) -> dict[str, Part]:
        """Return what no database holds of the projects of slots.

        What was left of a project that could not be loaded yet is passed on as it came.

        Args:
            whole: for the next owner in a planned move; else for whoever comes after a death.
        """
        found = {name: part for name, part in self._parts.items() if part}
        unsent = _by_project(reversed(self._send_buffer))
        postponed = _by_project(self._postpone_request)
        for name, project in list(self.projects.items()):
            if self.fence.slot(name) in slots:
                with self.isolating(name):
                    found[name] = self._part(
                        project, unsent.get(name, ()), postponed.get(name, ()), whole
                    )
        return {name: part for name, part in found.items() if self.fence.slot(name) in slots}

    def _part(
        self,
        project: Project,
        unsent: Iterable[dict[str, Any]],
        postponed: Iterable[dict[str, Any]],
        whole: bool,
    ) -> Part:
        return {
            **project_part(project, unsent, postponed, whole=whole),
            "counters": dump_windows(self._cnt, project.name),
            "tick": self._cron.last(project.name),
        }

    @contextmanager
    def isolating(self, name: str) -> Iterator[None]:
        """Put a project aside if what is done to it in the block fails.

        Raises:
            ClusterError: from the block; that is no fault of the project.
        """
        try:
            yield
        except ClusterError:
            raise
        except Exception as error:
            if not isinstance(error, AtFault):
                logger.debug("project %s is at fault", name, exc_info=True)
            self._put_aside(name, error)

    def _put_aside(self, name: str, error: Exception) -> None:
        """Put a project into quarantine, out of memory; what no database holds is kept for it."""
        self.quarantine.put(name, error)
        project = self.projects.get(name)
        if project is None:
            return
        try:
            unsent = [task for task in reversed(self._send_buffer) if task["project"] == name]
            later = [task for task in self._postpone_request if task["project"] == name]
            self._parts[name] = kept(name, self._part(project, unsent, later, whole=True))
        except Exception:  # whatever it is that is broken in it
            logger.exception("project %s: what was known of it is given up", name)
        self._unsend(name.__eq__)
        self._unload(name)

    def _update_projects(self) -> None:
        """Look at the project database, and compare row by row.

        While it is away, what is known of it serves.
        """
        now = time.monotonic()
        self._follow_clock()
        try:
            if now >= self._look_due or self._force_update_project:
                self._compare()
            for name in self.quarantine.due():
                if self.fence.holds(name) and name in self._index:
                    self._looks.put(name, float("-inf"))
            self._looks.work(now)
        except DatabaseAway:
            return  # it was said

    def _follow_clock(self) -> None:
        """Bear with a wall clock that was set back, by which pyspider counts much."""
        back = self._clock_jumps.back()
        if not back:
            return
        logger.warning("the clock was set back by %.0f s", back)
        now = time.time()
        for project in self.projects.values():
            trim_project(project, now)
        for manager in self._cnt.values():
            trim_counters(list(manager.counters.values()), now)
        self._last_dump_cnt: float = min(self._last_dump_cnt, now)

    def _compare(self) -> None:
        self._force_update_project = False  # before reading, so that no later call is lost
        began = time.monotonic()
        try:
            changes = self._index.refresh(self._rows())
        except DatabaseAway:
            self._force_update_project = True
            raise
        except Exception:  # each database has errors of its own
            logger.exception("the projects could not be read; they will be looked at again")
            self._look_due = began + self.UPDATE_PROJECT_INTERVAL
            return
        for name in changes.gone & {*self.projects, *self.quarantine.names()}:
            logger.warning("project %s is gone from the database", name)
            self._forget(name)
        for name in filter(self.fence.holds, changes.changed):
            self.quarantine.renew(name)
            self._looks.put(name, float("-inf"))
        self._tell_nameless()
        now = time.monotonic()
        self._look_due = now + max(self.UPDATE_PROJECT_INTERVAL, (now - began) / LOOKING)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Yield the short columns of all projects, with signs of life in between.

        Of an sqlite file that was put in place of the former one nothing would be seen for ever.
        """
        if hasattr(self.projectdb, "reconnect"):
            self.projectdb.reconnect()
        for count, row in enumerate(self.projectdb.get_all(fields=FIELDS)):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            yield row

    def _tell_nameless(self) -> None:
        """Tell of rows without a usable name, which have no slot: the owner of the first does."""
        nameless = set(self._index.nameless) if 0 in self.fence.held else set()
        for row in self._nameless - nameless:
            self.quarantine.drop(row)
        for row in nameless - self._nameless:
            self.quarantine.put(row, "its name is none: correct the row or delete it")
        self._nameless = nameless

    def _look(self, name: str) -> None:
        self._beat()
        with self.isolating(name):
            if self._look_at(name):
                self.quarantine.pardon(name)
            else:
                self._parts.pop(name, None)
                self.quarantine.drop(name)

    def _look_at(self, name: str) -> bool:
        """Read a project's row and bring memory in step; return whether there is such a row.

        Raises:
            AtFault: its row cannot be used.
        """
        info = self.projectdb.get(name)
        if info:
            faults = row_faults(info)
            if faults:
                self._put_aside(name, AtFault(", ".join(faults)))
                raise AtFault(", ".join(faults))
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
        self._cron.start(project.name, last_tick(part) or int(time.time()))
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
            with suppress(DatabaseAway):
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
        rows = active_rows(self.taskdb, project, self.scheduler_task_fields)
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
        self.quarantine.drop(name)

    def _unload(self, name: str) -> None:
        with self.lock:
            self.projects.pop(name, None)
            drop_counters(self._cnt, name)
        self._inherited.pop(name, None)
        self._cron.drop(name)
        self._second_looks.drop(name)
        self._counted.discard(name)

    def _print_counter_log(self) -> None:
        """Log what happened in five minutes, as pyspider does, in one pass over the counters.

        pyspider searches all counters anew for each project: with a thousand of them that took
        longer than a lease.
        """
        sums: dict[str, dict[str, int]] = {}
        for count, ((project, event), counter) in enumerate(
            self._cnt["5m"].counters.copy().items()
        ):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            sums.setdefault(project, dict.fromkeys(LOGGED, 0))
            if event in LOGGED:
                sums[project][event] = counter.sum
        logger.info(counter_log(sums))

    def _check_delete(self) -> None:
        """Delete the projects that pyspider would, one fence each."""
        deadline = time.time() - self.DELETE_TIME
        for project in list(self.projects.values()):
            due = project.db_status == "STOP" and project.updatetime <= deadline
            if due and "delete" in split_group(project.group):
                with suppress(DatabaseAway), self.isolating(project.name):
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
            FenceClosed: in the middle of it, maybe.
        """
        logger.warning("deleting project: %s!", name)
        for database in (self.taskdb, self.resultdb):
            self.fence.check(name)
            drop_table(database, name)
        self.fence.check(name)
        self.projectdb.drop(name)
        self.forget(name)
        self._unsaved.add(self.fence.slot(name))

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


def counter_log(sums: Mapping[str, Mapping[str, int]]) -> str:
    """Return pyspider's line about all projects, two that failed and those that did most."""
    total = {event: sum(each[event] for each in sums.values()) for event in LOGGED}
    fails = heapq.nlargest(2, ((each["failed"], name) for name, each in sums.items()))
    failed = [name for count, name in fails if count]
    most = heapq.nlargest(
        5 - len(failed),
        ((sum(each.values()), name) for name, each in sums.items() if name not in failed),
    )
    shown = [name for _, name in most] + failed
    projects = (f" {name}:{','.join(str(sums[name][event]) for event in LOGGED)}" for name in shown)
    told = ",".join(f"{label}:{total[event]}" for label, event in zip(LABELS, LOGGED, strict=True))
    return f"in 5m: {told}{''.join(projects)}"


def _by_project(tasks: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        found.setdefault(task["project"], []).append(task)
    return found
