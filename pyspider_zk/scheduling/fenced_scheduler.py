"""pyspider's scheduler behind the fence: its decisions about single tasks, on usable data."""

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from pyspider.database.base.taskdb import TaskDB
from pyspider.libs.counter import CounterManager
from pyspider.scheduler.scheduler import Project, Scheduler, task_log
from pyspider.scheduler.task_queue import TaskQueue

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import PATIENCE, Guarded
from pyspider_zk.databases.tables import Tables, with_fresh_tables
from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.rows import is_number
from pyspider_zk.queues.tasks import PARTS, TaskKey, usable_schedule
from pyspider_zk.scheduling.attention import Attention
from pyspider_zk.scheduling.dispatch import Dispatch
from pyspider_zk.scheduling.group_commit import GroupCommit
from pyspider_zk.scheduling.posted_calls import PostedCalls
from pyspider_zk.scheduling.slot_seals import SlotSeals
from pyspider_zk.scheduling.task_counts import (
    DONE,
    FAILED,
    NEW,
    RESTARTED,
    RESTARTED_DONE,
    RESTARTED_FAILED,
    RETRIED,
    TaskCounts,
)
from pyspider_zk.scheduling.task_rules import (
    UNCONDITIONAL,
    ScheduleTerms,
    recrawl_delay,
    restarts,
    retry_delay,
    schedule_again,
    time_in_flight,
    without_validators,
)
from pyspider_zk.scheduling.window import WindowSize
from pyspider_zk.tasks.database import task_database
from pyspider_zk.zookeeper.waiting import boottime

logger = logging.getLogger("scheduler")

T = TypeVar("T")

ON_FINISHED = "on_finished"
"""The id of the task that calls a script's ``on_finished``."""

INHERITED = ("status", "updatetime", "schedule")
"""The columns that tell whether a former owner may have sent a task; the last may be unreadable."""


class FencedScheduler(Scheduler):
    """pyspider's decisions about tasks; it writes and sends only if the fence is open.

    It overrides methods that pyspider itself calls, so a subclass may override ``on_task_failed``
    and the like as with pyspider's. It does not run the rounds: see ``SlotScheduler``.

    Threads: one thread owns it. Others post what they want changed to ``calls``, and hold ``lock``
    while they read ``projects``, as the owner does while it changes them. The constructor does no
    I/O.

    Attributes:
        calls: what other threads want done.
        lock: the project-set lock.
        fence: which slots are held, and whether effects are allowed; set its ``ownership`` first.
        taskdb: the task database; what is written takes effect with ``commit``.
        tables: which projects have tasks.
        seals: of the slots, in the task database.
        inherited: by project, when it was taken over from a member that died.
        attention: which projects something happened to.
        dispatch: carries tasks to the fetchers.
    """

    UPDATE_PROJECT_INTERVAL = 10
    """Seconds between two reads of the short columns of all projects, at least."""

    _RESTARTS: ClassVar = {TaskDB.SUCCESS: RESTARTED_DONE, TaskDB.FAILED: RESTARTED_FAILED}

    projects: dict[str, Project]
    taskdb: GroupCommit
    _send_buffer: deque[dict[str, Any]]
    _postpone_request: list[dict[str, Any]]

    def __init__(self, *args: Any, slots: int, cluster: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fence = Fence(slots)
        self._breakers = {kind: Breaker(kind) for kind in ("taskdb", "projectdb", "resultdb")}
        self._guard_databases(cluster)
        # The counters came from files that all schedulers of a machine share, so they begin anew.
        self._cnt: dict[str, CounterManager] = {
            window: CounterManager(made.cls) for window, made in self._cnt.items()
        }
        self.counts = TaskCounts(self._cnt)
        self.calls = PostedCalls()
        self.lock = threading.RLock()
        self.tables = Tables(self.taskdb)
        self.inherited: dict[str, float] = {}
        self.attention = Attention(WindowSize())
        self.dispatch = Dispatch(
            self._send_buffer, lambda: self.out_queue, self._may_send, self._on_sent
        )

    def _guard_databases(self, cluster: str) -> None:
        for kind, breaker in self._breakers.items():
            database = getattr(self, kind)
            if database is not None:
                setattr(self, kind, Guarded(database, breaker, self._lease_left))
            if kind == "taskdb":
                guarded, bulk = getattr(self, kind), task_database(database)
                self.seals = SlotSeals(guarded, bulk, cluster, self.fence)
                self.taskdb = GroupCommit(guarded, bulk, self.seals.checking)

    def _lease_left(self) -> float:
        """Return how long a statement may wait: no write may take effect after the lease.

        Without a lease there are no writes.
        """
        ownership = self.fence.ownership
        left = PATIENCE if ownership is None else ownership.view.lease_until - boottime()
        return math.floor(left * 20) / 20 if 0 < left < PATIENCE else PATIENCE

    # -- what is in memory ------------------------------------------------------------------------

    @property
    def away(self) -> tuple[str, ...]:
        """The names of databases that do not answer."""
        return tuple(kind for kind, breaker in self._breakers.items() if breaker.is_open)

    @property
    def counters(self) -> Mapping[str, CounterManager]:
        """The counters of pyspider, by time window."""
        counters: Mapping[str, CounterManager] = self._cnt
        return counters

    @property
    def send_buffer(self) -> deque[dict[str, Any]]:
        """Tasks that wait for room in the fetcher's queue, the next one at the right."""
        return self._send_buffer

    @property
    def postponed(self) -> list[dict[str, Any]]:
        """New tasks that pyspider put off until the same task is no longer in flight."""
        return self._postpone_request

    def unsend(self, is_meant: Callable[[str], bool]) -> None:
        """Drop tasks that are to be sent, or applied later, of the projects that are meant."""
        for waiting in (self._send_buffer, self._postpone_request):
            for task in [task for task in waiting if is_meant(task["project"])]:
                waiting.remove(task)

    def is_full(self, project: Project) -> bool:
        """Return whether pyspider would ignore new tasks of a project (``INQUEUE_LIMIT``)."""
        return bool(0 < self.INQUEUE_LIMIT <= len(project.task_queue))

    def is_new(self, task: Mapping[str, Any]) -> bool:
        """Return whether a task is known to be neither in memory nor in a row."""
        name, taskid = task["project"], task["taskid"]
        if not self.taskdb.is_new(name, taskid):
            return False
        project = self.projects.get(name)
        return project is not None and taskid not in project.task_queue

    def is_under_way(self, task: Mapping[str, Any]) -> bool:
        """Return whether a task is with fetcher or processor; its pack may have arrived already."""
        project = self.projects.get(task["project"])
        return project is not None and bool(project.task_queue.is_processing(task["taskid"]))

    def find_task(self, project: str, taskid: str, fields: list[str]) -> dict[str, Any] | None:
        """Return columns of a task's row, if there is one."""
        if not self.tables.may_have(project):
            return None
        row: dict[str, Any] | None = with_fresh_tables(
            self.taskdb, lambda: self.taskdb.get_task(project, taskid, fields)
        )
        return row

    # -- tasks ------------------------------------------------------------------------------------

    def read_ahead(self, taskids: Mapping[str, Collection[Any]]) -> None:
        """Read the rows with which requests are compared, by project, for the next commit."""
        known = {project: taskids[project] for project in self.tables.which_may_have(taskids)}
        self.taskdb.read_ahead(known, [*self.merge_task_fields, "updatetime"])

    def commit(self, beat: Callable[[], None] = lambda: None) -> Mapping[TaskKey, Exception]:
        """Write the rows of all tasks that were inserted or updated, if the fence is open.

        Args:
            beat: shows that the loop runs.

        Returns:
            The tasks whose rows the database refuses; they are in memory as they were before.

        Raises:
            FenceClosed: nothing was written; it stays to be written.
            DatabaseAway: some of it may not be written; it stays to be written.
        """
        try:
            refused = self.taskdb.commit(self.check_all, beat)
        except Exception:
            self.tables.look_again()  # there may be a table that we do not know yet
            raise
        for (project, taskid), error in refused.items():
            logger.error("the row of task %s:%s is refused: %r", project, taskid, error)
        return refused

    def check_all(self, projects: Collection[str]) -> None:
        """Raise ``FenceClosed`` if an effect on one of these projects is not allowed."""
        for project in projects:
            self.fence.check(project)

    def together(self, projects: Collection[str], work: Callable[[], T]) -> T:
        """Change rows of the project database, of many in one transaction; return what it returns.

        Raises:
            FenceClosed: nothing was written, where there are transactions.
        """
        if len(projects) == 1:
            return work()
        changed: T = self.projectdb.together(work, partial(self.check_all, projects))
        return changed

    def _is_inherited(self, project: str, taskid: Any) -> bool:
        """Return whether a former owner may have sent a task before it died.

        If so, the task was due then, and its row has not changed since.
        """
        since = self.inherited.get(project)
        if since is None or self.taskdb.has_written(project, taskid):
            return False
        row = self._row_of(project, taskid)
        if row is None or row["status"] != self.taskdb.ACTIVE:
            return False
        written, exetime = row["updatetime"], usable_schedule(row.get("schedule")).get("exetime", 0)
        return bool(is_number(written) and written < since and exetime <= since)

    def _row_of(self, project: str, taskid: Any) -> Mapping[str, Any] | None:
        """Return a task's row, without the schedule if that is unreadable."""
        row = self.taskdb.row_ahead(project, taskid)
        if row is not None:
            return self.taskdb.decoded(row) or {**row, "schedule": {}}
        for fields in (INHERITED, INHERITED[:2]):
            row = self.taskdb.read_many(project, [taskid], fields).get(taskid)
            if row is not None:
                return row
        return None

    def on_request(self, task: dict[str, Any]) -> Any:
        """Apply a request; a task without a row is known without reading the database."""
        project, taskid = self.projects[task["project"]], task["taskid"]
        undo = _undo(project.task_queue, taskid)
        if self._has_row(project.name, taskid) or self.is_full(project):
            result = super().on_request(task)
        else:
            result = self.on_new_request(task)
        self.taskdb.on_refusal(project.name, taskid, undo)
        return result

    def _has_row(self, project: str, taskid: str) -> bool:
        """Return whether a task may have a row; False is certain."""
        if self.taskdb.is_new(project, taskid):
            return False
        return self.taskdb.has_written(project, taskid) or self.tables.may_have(project)

    def on_new_request(self, task: dict[str, Any]) -> Any:
        """Store a new task, and let it run."""
        task["status"] = self.taskdb.ACTIVE
        self.insert_task(task)
        self.put_task(task)
        self.counts.count(task["project"], NEW)
        task_log.info("new task %(project)s:%(taskid)s %(url)s", task)
        return task

    def on_old_request(self, task: dict[str, Any], old_task: Mapping[str, Any]) -> Any:
        """Apply a request for a task that has a row; unusable parts of the row are ignored.

        An ACTIVE row that is not in memory is of a task that waits there; or it was written by an
        owner that died, or was suspended, before it had completed its message.
        """
        former = usable_schedule(old_task.get("schedule"))
        tasks = self.projects[task["project"]].task_queue
        if old_task["status"] == self.taskdb.ACTIVE and task["taskid"] not in tasks:
            if tasks.unloaded:
                tasks.unloaded.take_one()  # it is put, or cancelled
            else:
                self.put_task({**task, "schedule": former})
        schedule: Any = task.get("schedule", self.default_schedule)
        if schedule.get("force_update") and tasks.is_processing(task["taskid"]):
            logger.info("postpone modify task %(project)s:%(taskid)s %(url)s", task)
            self._postpone_request.append(task)
            return None
        asked, crawled = ScheduleTerms.of(schedule), old_task.get("lastcrawltime")
        if not self.runs_again(asked, crawled, lambda: former):
            logger.debug("ignore newtask %(project)s:%(taskid)s %(url)s", task)
            return None
        self.dispatch.withdraw(task["project"], task["taskid"])  # what waits is as it was before
        if schedule.get("cancel"):
            return self._cancel(task)
        if "schedule" in task:
            is_pending = old_task["status"] == self.taskdb.ACTIVE
            task["schedule"] = schedule_again(schedule, asked, former, is_pending=is_pending)
        return self._restart(task, old_task)

    def runs_again(
        self, asked: ScheduleTerms, crawled: Any, former: Callable[[], Mapping[str, Any]] = dict
    ) -> bool:
        """Return whether a request lets a task that has a row run again; see ``restarts``.

        Without ``former`` the task's ``itag`` is not known, and counts as another one.
        """
        crawled = crawled if is_number(crawled) else 0
        return restarts(asked, crawled, former, self.default_schedule["age"], time.time())

    def _cancel(self, task: dict[str, Any]) -> dict[str, Any]:
        logger.info("cancel task %(project)s:%(taskid)s %(url)s", task)
        task["status"] = self.taskdb.BAD
        self.update_task(task)
        self.projects[task["project"]].task_queue.delete(task["taskid"])
        return task

    def _restart(self, task: dict[str, Any], old_task: Mapping[str, Any]) -> dict[str, Any]:
        task["status"] = self.taskdb.ACTIVE
        self.update_task(task)
        self.put_task(task)
        if old_task["status"] != self.taskdb.ACTIVE:
            self.counts.count(task["project"], self._RESTARTS.get(old_task["status"], RESTARTED))
        logger.info("restart task %(project)s:%(taskid)s %(url)s", task)
        return task

    def on_task_status(self, task: dict[str, Any]) -> Any:
        """Apply a status pack, also one of a task that a former owner dispatched.

        Args:
            task: it passed ``check_pack``.
        """
        project, taskid = self.projects[task["project"]], task["taskid"]
        tasks = project.task_queue
        if not tasks.is_processing(taskid) and self._is_inherited(project.name, taskid):
            self._take_over(project, taskid)
        undo = _undo(tasks, taskid)
        if not tasks.done(taskid):
            logger.error("not processing pack: %(project)s:%(taskid)s %(url)s", task)
            return None
        answered = {**task["schedule"]} if "schedule" in task else None  # which is changed
        fetched, processed = task["track"]["fetch"], task["track"]["process"]
        try:
            result = self.on_task_done(task) if processed["ok"] else self.on_task_failed(task)
        except Exception:
            undo()  # the next try must find it in flight
            raise
        self._count_times(project.name, fetched.get("time"), processed.get("time"))
        project.active_tasks.appendleft((time.time(), task))
        self.dispatch.withdraw(project.name, taskid, answered)
        self.taskdb.on_refusal(project.name, taskid, undo)
        return result

    def _take_over(self, project: Project, taskid: str) -> None:
        """Let a task count as in flight that a former owner sent."""
        tasks = project.task_queue
        if not tasks.delete(taskid):
            tasks.unloaded.take_one()
        tasks.put_in_flight(taskid, 0, time.time() + tasks.processing_timeout)
        tasks.doubt([taskid])
        project._selected_tasks |= taskid != ON_FINISHED

    def _count_times(self, project: str, fetched: Any, processed: Any) -> None:
        if fetched:
            self.counts.time(project, "fetch_time", fetched)
        if processed:
            self.counts.time(project, "process_time", processed)

    def on_task_done(self, task: dict[str, Any]) -> Any:
        """Store that a task has succeeded, or let it run again if it does so by itself."""
        task["status"], task["lastcrawltime"] = self.taskdb.SUCCESS, time.time()
        if "schedule" in task:
            delay = recrawl_delay(task["schedule"])
            if delay is None:
                del task["schedule"]
            else:
                task["status"] = self.taskdb.ACTIVE
                task["schedule"].pop(UNCONDITIONAL, None)
                task["schedule"]["exetime"] = time.time() + delay
                self.put_task(task)
        self.update_task(task)
        self.counts.count(task["project"], DONE)
        task_log.info("task done %(project)s:%(taskid)s %(url)s", task)
        return task

    def on_task_failed(self, task: dict[str, Any]) -> Any:
        """Store that a task is given up, or let it run again later."""
        if "schedule" not in task:
            row = self.taskdb.get_task(task["project"], task["taskid"], fields=["schedule"])
            if row is None:
                logger.error("unknown status pack: %s", task)
                return None
            task["schedule"] = usable_schedule(row.get("schedule"))
        schedule = task["schedule"]
        retries = schedule.get("retries", self.default_schedule["retries"])
        retried = schedule.get("retried", 0)
        delays = self.projects[task["project"]].retry_delay
        delay = retry_delay(schedule, retries, retried, delays, self.DEFAULT_RETRY_DELAY)
        task["lastcrawltime"] = time.time()
        if delay is None:
            return self._give_up(task)
        schedule["retried"], schedule["exetime"] = retried + 1, time.time() + delay
        self.update_task(task)
        self.put_task(task)
        self.counts.count(task["project"], RETRIED)
        tries = f"{int(retried)}/{int(retries)}"
        logger.info(f"task retry {tries} %(project)s:%(taskid)s %(url)s", task)
        return task

    def _give_up(self, task: dict[str, Any]) -> dict[str, Any]:
        task["status"] = self.taskdb.FAILED
        self.update_task(task)
        self.counts.count(task["project"], FAILED)
        logger.info("task failed %(project)s:%(taskid)s %(url)s", task)
        return task

    # -- sending ----------------------------------------------------------------------------------

    def send_task(self, task: dict[str, Any], force: bool = True) -> None:
        """Dispatch a task to the fetcher; a closed fence is treated as a full queue."""
        if self.dispatch.is_collecting:
            self.dispatch.add(task)  # which asks the fence before it sends
        elif self._may_send(task["project"]):
            super().send_task(task, force)
        elif force:
            self._send_buffer.appendleft(task)
        else:
            raise queue.Full

    def _may_send(self, project: str) -> bool:
        """Return whether the fence is open for the tasks of a project.

        One of a slot that is not held was sent manually, over XML-RPC, while the slot moved.
        """
        return self.fence.is_open(project) or not self.fence.holds(project)

    def _on_sent(self, task: Mapping[str, Any]) -> None:
        """Note that a task had waited and is sent: its time-out begins now."""
        self.attention.unsaved.add(task["project"])  # the next owner must not send a tick again
        project = self.projects.get(task["project"])
        if project is not None:
            tasks = project.task_queue
            tasks.sent(task["taskid"], time_in_flight(task, tasks.processing_timeout))

    def send_by_hand(self, task: dict[str, Any]) -> None:
        """Dispatch a task at once, without the fence; if the queue is full, in a later round.

        Threads: any.

        Raises:
            Unavailable: the queue is full, and there is no later round.
        """
        try:
            self.out_queue.put_nowait(task)
        except queue.Full:
            if not self.calls.post(partial(self._send_buffer.appendleft, task)):
                raise Unavailable("this scheduler has ended: send the task again") from None

    def call_script(self, project: str, callback: str, save: object) -> None:
        """Send a task that calls a project's script without fetching a page, as pyspider does."""
        self.on_select_task(
            {
                "taskid": callback,
                "project": project,
                "url": f"data:,{callback}",
                "status": self.taskdb.SUCCESS,
                "fetch": {"save": save},
                "process": {"callback": callback},
            }
        )

    def request_info(self, project: str) -> None:
        """Request a script's tick and settings, which come back in a status pack."""
        self.call_script(project, "_on_get_info", self.get_info_attributes)

    def on_select_task(self, task: dict[str, Any]) -> Any:
        """Send a task to the fetcher; a part that is not a mapping, such as a NULL, is empty.

        From now on it counts as lost once it has taken longer than it may.
        """
        for part in PARTS:
            if part in task and not isinstance(task[part], dict):
                task[part] = {}
        if task.get("schedule", {}).get(UNCONDITIONAL) and "track" in task:
            task["track"] = without_validators(task["track"])
        sent: dict[str, Any] = super().on_select_task(task)
        self._give_time(sent)
        return sent

    def _give_time(self, task: dict[str, Any]) -> None:
        """Let a task that was sent be in flight for longer, if it may take longer than usual."""
        tasks = self.projects[task["project"]].task_queue
        lasting = time_in_flight(task, tasks.processing_timeout)
        if lasting > tasks.processing_timeout:
            tasks.sent(task["taskid"], lasting)


def _undo(tasks: TaskQueue, taskid: str) -> Callable[[], object]:
    """Return what puts a task back where it is queued or in flight now, if it is."""
    for place in (tasks.processing, tasks.priority_queue, tasks.time_queue):
        item = place.queue_dict.get(taskid)
        if item is not None:
            return partial(tasks.restore, place, item)
    return partial(tasks.delete, taskid)
