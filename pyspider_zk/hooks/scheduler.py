"""pyspider's scheduler as a member of a cluster."""

import logging
import queue
import signal
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project, Scheduler
from pyspider.scheduler.task_queue import InQueueTask

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import Load
from pyspider_zk.core.slots import slot_of
from pyspider_zk.core.tasks import check_task, sort_out
from pyspider_zk.errors import BadMessage, ClusterError, GateClosed, Unavailable
from pyspider_zk.hooks.catalogue import FIELDS, Catalogue
from pyspider_zk.hooks.handoff import (
    Part,
    is_clean,
    project_part,
    restore_processing,
    restore_script_info,
    restore_state,
    slot_record,
)
from pyspider_zk.hooks.identity import member_record
from pyspider_zk.hooks.intake import Entry, Intake
from pyspider_zk.hooks.membership import Coordinate, Ownership
from pyspider_zk.hooks.rpc import RpcServer
from pyspider_zk.hooks.rpc_functions import rpc_functions
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.hooks.windows import drop_counters, dump_windows, load_windows
from pyspider_zk.queues.api import Queues
from pyspider_zk.wiring import current_queues, current_settings
from pyspider_zk.zookeeper.coordinator import Coordinator

logger = logging.getLogger("scheduler")

CATCH_UP = 3600
"""Seconds of missed ``@every`` ticks that are made up after a pause; older ones are lost."""

ROWS_PER_BEAT = 1000
"""How many rows are loaded between two signs of life."""


class ClusterScheduler(Scheduler):
    """Schedules the projects of the slots that this member owns.

    All decisions about tasks are pyspider's own. This class decides which projects are in
    memory, where messages come from, and when nothing may be done.

    Threads: ``run`` owns the scheduler; ``lock`` is held while ``projects`` changes, and by
    XML-RPC calls while they read it. ``quit``, ``drain`` and XML-RPC calls come from any thread.

    The constructor's arguments are pyspider's; it does no I/O. ``threads`` is accepted and has
    no effect: members are added instead. ``settings``, ``queues`` and ``coordinate`` are for
    those who compose by hand; else they come from the command line and config.json.
    """

    def __init__(
        self,
        taskdb: Any,
        projectdb: Any,
        newtask_queue: Any,
        status_queue: Any,
        out_queue: Any,
        data_path: str = "./data",
        resultdb: Any = None,
        threads: int | None = None,
        *,
        settings: Settings | None = None,
        queues: Queues | None = None,
        coordinate: Coordinate = Coordinator,
    ) -> None:
        super().__init__(
            taskdb, projectdb, newtask_queue, status_queue, out_queue, data_path, resultdb
        )
        if threads is not None:
            logger.info("threads has no effect on a cluster's scheduler: start more of them")
        self._force_update_project = False
        self._last_update_project = 0.0
        self._postpone_request: list[dict[str, Any]] = []
        for manager in self._cnt.values():
            manager.counters.clear()  # read from files that all schedulers of a machine share
        self.settings = settings or current_settings()
        self.queues = queues or current_queues(self.settings)
        self.lock = threading.RLock()
        self.rpc = RpcServer(rpc_functions(self))
        self.ownership: Ownership | None = None
        self._coordinate = coordinate
        self._catalogue = Catalogue(self.settings.slots)
        self._intake = Intake(self.queues.slot_queues)
        self._held: dict[int, int] = {}
        self._parts: dict[str, Part] = {}
        self._inherited: dict[str, set[str]] = {}
        self._ticks: dict[str, int] = {}
        self._counted: set[str] = set()
        self._load = Load()
        self._load_measured = float("-inf")
        self._wake = threading.Event()
        self._drain_until: float | None = None
        self._away = False

    # -- life -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Join the cluster and schedule until ``quit`` or, after ``drain``, nothing is left.

        Raises:
            ClusterError: the cluster cannot be joined, or this member failed in it.
        """
        logger.info("scheduler starting...")
        orderly = False
        try:
            with on_signals({signal.SIGTERM: self.drain, signal.SIGINT: self.quit}):
                self.ownership = self._join()
                self._loop()
                orderly = True
        finally:
            self._leave(orderly)
            logger.info("scheduler exiting...")

    def xmlrpc_run(
        self,
        port: int = 23333,
        bind: str = "127.0.0.1",
        logRequests: bool = False,  # noqa: ARG002, N803 - pyspider's signature
    ) -> None:
        """Serve XML-RPC; port 0 picks a free one. Blocks until the scheduler ends."""
        self.rpc.serve(bind, port)

    def quit(self) -> None:
        """End after the present round; all slots are free at once."""
        self._quit = True
        self._wake.set()

    def drain(self) -> None:
        """Move all slots to other members, then end; a second call ends at once."""
        if self.ownership is None or self._drain_until is not None:
            return self.quit()
        logger.info("draining: the slots move to other members")
        self._drain_until = time.monotonic() + self.settings.drain
        self.ownership.drain()
        return None

    def _join(self) -> Ownership:
        try:
            port = self.rpc.port(patience=5)
        except TimeoutError as error:
            raise ClusterError(
                "a member of a cluster is reached by XML-RPC: do not use --no-xmlrpc"
            ) from error
        ownership = self._coordinate(
            self.settings,
            member_record(self.settings, port),
            lambda: self._catalogue.weights,
            lambda: self._load,
        )
        ownership.start()
        return ownership

    def _leave(self, orderly: bool) -> None:
        try:
            self._give_up(self._held, planned=orderly)
        except ClusterError as error:
            logger.warning("nothing could be handed over: %s", error)
        finally:
            if self.ownership is not None:
                self.ownership.stop()
            self.rpc.stop()
            self.queues.close()

    def _loop(self) -> None:
        while not self._quit and not self._drained():
            self._wake.wait(self.LOOP_INTERVAL)
            try:
                self.run_once()
                self._exceptions = 0
                self._say_away(None)
            except GateClosed as error:
                logger.info("round stopped: %s", error)
            except Unavailable as error:
                self._say_away(error)
            except ClusterError:
                raise
            except Exception:
                logger.exception("round failed")
                self._exceptions += 1
                if self._exceptions > self.EXCEPTION_LIMIT:
                    raise

    def _drained(self) -> bool:
        if self._drain_until is None or self.ownership is None:
            return False
        nobody = self.ownership.alone or time.monotonic() > self._drain_until
        return nobody or not (self._held or self.ownership.view.owned)

    def _say_away(self, error: Unavailable | None) -> None:
        """Log the loss of the message queue and its return once each."""
        if error is not None and not self._away:
            logger.warning("%s; scheduling waits", error)
        elif error is None and self._away:
            logger.info("the message queue answers again")
        self._away = error is not None

    # -- one round ------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Follow the assignment, take messages in, send tasks out, once."""
        self._beat()
        self._update_projects()
        self._follow()
        if self.ownership is not None and self.ownership.leading:
            self.queues.inbox.forward(self.LOOP_LIMIT)
        if self._held and self._all_open():
            self._check_task_done()
            self._check_request()
            self._check_cronjob()
            self._check_select()
            self._check_delete()
        self._try_dump_cnt()

    def _beat(self) -> None:
        if self.ownership is not None:
            self.ownership.beat()
        now = time.monotonic()
        if now - self._load_measured > 1:
            self._load_measured = now
            self._load = Load(projects=len(self.projects), pending=len(self))

    # -- the gate -------------------------------------------------------------------------------

    def slot(self, project: str) -> int:
        """Return a project's slot."""
        return slot_of(project, self.settings.slots)

    def is_open(self, project: str) -> bool:
        """Tell whether this member may act on a project at this moment."""
        slot = self.slot(project)
        epoch = self._held.get(slot)
        return epoch is not None and self.ownership is not None and self.ownership.open(slot, epoch)

    def _all_open(self) -> bool:
        """Tell whether the lease holds; it is the same for all slots."""
        ownership = self.ownership
        return ownership is not None and all(
            ownership.open(slot, epoch) for slot, epoch in self._held.items()
        )

    def _check_gate(self, project: str) -> None:
        if not self.is_open(project):
            raise GateClosed(f"slot {self.slot(project)} of project {project} is not ours now")

    def insert_task(self, task: dict[str, Any]) -> Any:
        """Insert a task into the task database, if the gate is open."""
        self._check_gate(task["project"])
        return super().insert_task(task)

    def update_task(self, task: dict[str, Any]) -> Any:
        """Update a task in the task database, if the gate is open."""
        self._check_gate(task["project"])
        return super().update_task(task)

    def send_task(self, task: dict[str, Any], force: bool = True) -> None:
        """Dispatch a task to the fetcher; a closed gate is treated as a full queue."""
        held = self.slot(task["project"]) in self._held
        if not held or self.is_open(task["project"]):  # not held: somebody sent it by hand
            super().send_task(task, force)
        elif force:
            self._send_buffer.appendleft(task)
        else:
            raise queue.Full

    def _load_put_task(self, project: str, taskid: str) -> None:
        """Send a selected task, or put it back where it was selected from."""
        if self.is_open(project):
            super()._load_put_task(project, taskid)
            return
        tasks = self.projects[project].task_queue
        selected = tasks.processing[taskid]
        tasks.done(taskid)
        tasks.put(taskid, selected.priority)

    # -- slots come and go ----------------------------------------------------------------------

    def _follow(self) -> None:
        """Make what is in memory agree with what is owned."""
        if self.ownership is None:
            return
        view = self.ownership.view
        lost = {slot: epoch for slot, epoch in self._held.items() if view.owned.get(slot) != epoch}
        planned = {slot: e for slot, e in lost.items() if view.releasing.get(slot) == e}
        self._give_up({slot: e for slot, e in lost.items() if slot not in planned}, planned=False)
        self._give_up(planned, planned=True)
        never_held = {slot: e for slot, e in view.releasing.items() if slot not in planned}
        if planned or never_held:
            self.ownership.released({**planned, **never_held})
        self._take({slot: e for slot, e in view.owned.items() if slot not in self._held})

    def _take(self, slots: Mapping[int, int]) -> None:
        if not slots:
            return
        records = self.queues.records.load_many(slots)
        self._intake.take(slots)
        for slot, epoch in slots.items():
            record = records.get(slot)
            clean = is_clean(record, epoch)
            self._held[slot] = epoch
            for name in self._catalogue.names(slot):
                part = record["projects"].get(name, {}) if record else {}
                self._parts[name] = {**part, "clean": clean}
                self._look_at(name)
        logger.info("took %d slots, %d projects in all", len(slots), len(self.projects))

    def _give_up(self, slots: Mapping[int, int], *, planned: bool) -> None:
        """Forget slots; in a planned move the next owner gets all that is not in a database."""
        slots = dict(slots)
        if not slots:
            return
        self._intake.drop(slots)
        unsent = self._pull_unsent(slots)
        if planned and self._all_open():
            self._save(slots, unsent, clean=True)
        for slot in slots:
            del self._held[slot]
        for name in [name for name in self.projects if self.slot(name) in slots]:
            self._forget(name)
        logger.info("gave %d slots up, %d projects left", len(slots), len(self.projects))

    def _pull_unsent(self, slots: Collection[int]) -> dict[str, list[Any]]:
        """Take the tasks of slots out of the send buffer, oldest first, by project."""
        unsent: dict[str, list[Any]] = {}
        for task in list(self._send_buffer):
            if self.slot(task["project"]) in slots:
                self._send_buffer.remove(task)
                unsent.setdefault(task["project"], []).insert(0, task)
        return unsent

    def _save(
        self, slots: Mapping[int, int], unsent: Mapping[str, list[Any]], *, clean: bool
    ) -> None:
        parts: dict[int, dict[str, Part]] = {slot: {} for slot in slots}
        for name, project in list(self.projects.items()):
            if self.slot(name) in slots:
                parts[self.slot(name)][name] = {
                    **project_part(project, unsent.get(name, ())),
                    "counters": dump_windows(self._cnt, name),
                    "tick": self._ticks.get(name),
                }
        self.queues.records.save_many(
            {slot: slot_record(epoch, clean, parts[slot]) for slot, epoch in slots.items()}
        )

    # -- projects -------------------------------------------------------------------------------

    def _update_projects(self) -> None:
        """Look at the project database; pyspider's interval, row by row."""
        now = time.time()
        if (
            not self._force_update_project
            and self._last_update_project + self.UPDATE_PROJECT_INTERVAL > now
        ):
            return
        self._force_update_project = False  # before reading, so that no later call is lost
        changes = self._catalogue.refresh(self.projectdb.get_all(fields=FIELDS))
        self._last_update_project = now
        for name in changes.gone & self.projects.keys():
            logger.warning("project %s is gone from the database", name)
            self._forget(name)
        for name in changes.changed:
            if self.slot(name) in self._held:
                self._look_at(name)

    def _look_at(self, name: str) -> bool:
        """Read a project's row and bring memory in step; return whether there is such a row."""
        info = self.projectdb.get(name)
        if info:
            self._update_project(info)
        return bool(info)

    def _update_project(self, project: dict[str, Any]) -> None:
        """Create or update one project of a slot that is held."""
        name = project["name"]
        if name not in self.projects:
            with self.lock:
                self.projects[name] = self._revive(project)
        super()._update_project(project)
        self._parts.pop(name, None)

    def _revive(self, info: dict[str, Any]) -> Project:
        """Make a project from its row and what the former owner left of it."""
        project = Project(self, info)
        part = self._parts.get(info["name"], {})
        restore_script_info(project, part)
        load_windows(self._cnt, project.name, part.get("counters", {}))
        self._ticks[project.name] = part.get("tick") or int(time.time())
        if part.get("clean") and "md5sum" in part:
            restore_state(project, part)
            self._send_buffer.extend(reversed(part["unsent"]))
        return project

    def _load_tasks(self, project: Project) -> None:
        """Load the ACTIVE rows, except those known to be with fetcher or processor."""
        part = self._parts.get(project.name, {})
        clean = bool(part.get("clean")) and "processing" in part
        away = restore_processing(project, part) if clean else set()
        inherited = self._inherited.setdefault(project.name, set())
        now = time.time()
        for task in self._active_rows(project.name):
            if task["taskid"] in away:
                continue
            schedule = {**self.default_schedule, **task.get("schedule", {})}
            project.task_queue.put(task["taskid"], schedule["priority"], schedule["exetime"])
            if not clean and schedule["exetime"] <= now:
                inherited.add(task["taskid"])  # a former owner may have sent it already
        project.task_loaded = True
        self._update_project_cnt(project.name)
        self._cnt["all"].value((project.name, "pending"), len(project.task_queue))

    def _active_rows(self, project: str) -> Iterator[dict[str, Any]]:
        """Yield the rows to load, with signs of life: a large project takes longer than a lease."""
        rows = self.taskdb.load_tasks(self.taskdb.ACTIVE, project, self.scheduler_task_fields)
        for count, row in enumerate(rows):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            yield row

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
        self._ticks.pop(name, None)
        self._parts.pop(name, None)
        self._counted.discard(name)

    def _check_delete(self) -> None:
        with self.lock:
            before = set(self.projects)
            super()._check_delete()
            for name in before - self.projects.keys():
                self._forget(name)

    # -- messages -------------------------------------------------------------------------------

    def _check_task_done(self) -> int:
        """Apply status packs."""
        return self._intake.run(Kind.STATUS, self.LOOP_LIMIT, self._apply_status)

    def _apply_status(self, entry: Entry) -> bool:
        pack = entry.delivery.body
        project = self._running_project(pack)
        if project is None:
            return True
        self._check_gate(project.name)
        if pack["taskid"] == "_on_get_info":
            project.on_get_info(pack.get("track", {}).get("save") or {})
            logger.info("%s on_get_info %r", project.name, pack["track"].get("save"))
        else:
            self.on_task_status(pack)
        return True

    def _running_project(self, task: Any) -> Project | None:
        """Return the project of a message, None if it does not run.

        Raises:
            BadMessage: the message is no task.
        """
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
        return self._intake.run(Kind.NEWTASK, self.LOOP_LIMIT, self._apply_tasks)

    def _apply_tasks(self, entry: Entry) -> bool:
        """Apply a message of one or many tasks; what must wait stays in the entry.

        Raises:
            BadMessage: some of it is no task; the rest is applied by then.
        """
        if entry.rest is None:
            body = entry.delivery.body
            entry.rest, entry.fault = sort_out(body if isinstance(body, list) else [body])
        entry.rest = [task for task in entry.rest if not self._apply_task(task)]
        if entry.fault and not entry.rest:
            raise BadMessage(entry.fault)
        return not entry.rest

    def _apply_task(self, task: Any) -> bool:
        """Apply one new task; return False if it must wait until the task is not in processing."""
        project = self._running_project(task)
        if project is None:
            return True
        self._check_gate(project.name)
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
                continue
            last = max(self._ticks.get(project.name, now), now - CATCH_UP)
            self._ticks[project.name] = now
            if project.active and int(project.min_tick):
                for tick in _multiples(int(project.min_tick), last, now):
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

    def _dump_cnt(self) -> None:
        """Save counters and script information of all slots, for whoever comes after a death."""
        busy = {self.slot(name) for name in self.projects}
        slots = {slot: epoch for slot, epoch in self._held.items() if slot in busy}
        if slots and self._all_open():
            self._save(slots, {}, clean=False)


def _multiples(step: int, after: int, until: int) -> range:
    """Return the multiples of ``step`` in (after, until]."""
    return range((after // step + 1) * step, until + 1, step)
