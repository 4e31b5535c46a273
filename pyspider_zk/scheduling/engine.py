"""Engine: what is decided about single tasks, by pyspider's rules and behind the fence.

It has the settings of pyspider's scheduler, and the methods that a subclass may override, under
their names: ``task_verify``, ``on_request``, ``on_new_request``, ``on_old_request``,
``on_task_status``, ``on_task_done``, ``on_task_failed``, ``on_select_task``, ``insert_task``,
``update_task``, ``put_task`` and ``send_task``. It does not run the rounds: see ``scheduler``.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar

from pyspider.libs.base_handler import BaseHandler

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.rows import is_number
from pyspider_zk.queues.tasks import REQUIRED, own_task, usable_schedule
from pyspider_zk.scheduling.attention import Attention
from pyspider_zk.scheduling.counters import (
    DONE,
    FAILED,
    NEW,
    RESTARTED,
    RESTARTED_DONE,
    RESTARTED_FAILED,
    RETRIED,
    TaskCounts,
    new_counters,
)
from pyspider_zk.scheduling.databases import FencedDatabases
from pyspider_zk.scheduling.dispatch import Dispatch
from pyspider_zk.scheduling.posted_calls import PostedCalls
from pyspider_zk.scheduling.project import SENT, LoadedProject
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
from pyspider_zk.tasks.columns import TaskKey
from pyspider_zk.tasks.documents import DOCUMENTS
from pyspider_zk.tasks.failures import failure_of
from pyspider_zk.tasks.store import TaskStore

logger = logging.getLogger("scheduler")

ON_FINISHED = "on_finished"
"""The id of the task that calls a script's ``on_finished``."""

Task = dict[str, Any]


class TaskEngine:
    """Engine of one scheduler: the projects in memory, and the decisions about their tasks.

    Threads: one thread owns it. Others post what they want changed to ``calls``, and hold ``lock``
    while they read ``projects``, as the owner does while it changes them. The constructor does no
    I/O.

    Args:
        newtask_queue, status_queue, data_path: pyspider's, which a cluster has no use for.

    Attributes:
        projects: in memory, by name.
        calls: what other threads want done.
        lock: the project-set lock.
        fence: which slots are held, and whether effects are allowed; set its ``ownership`` first.
        databases: what is written to tasks takes effect with ``commit``.
        taskdb, projectdb, resultdb: the same, by pyspider's names.
        counters: pyspider's, by time window.
        counts: what happens to tasks.
        inherited: by project, when it was taken over from a member that died.
        attention: which projects something happened to.
        dispatch: carries tasks to the fetchers.
    """

    UPDATE_PROJECT_INTERVAL = 10
    """Seconds between two reads of the short columns of all projects, at least."""

    LOOP_LIMIT = 1000
    LOOP_INTERVAL = 0.1
    ACTIVE_TASKS = 100
    INQUEUE_LIMIT = 0
    EXCEPTION_LIMIT = 3
    DELETE_TIME = 24 * 3600
    FAIL_PAUSE_NUM = 10
    PAUSE_TIME = 5 * 60
    UNPAUSE_CHECK_NUM = 3
    DEFAULT_RETRY_DELAY: ClassVar[Mapping[Any, float]] = {
        0: 30,
        1: 3600,
        2: 6 * 3600,
        3: 12 * 3600,
        "": 24 * 3600,
    }
    default_schedule: ClassVar[Mapping[str, Any]] = {
        "priority": 0,
        "retries": 3,
        "exetime": 0,
        "age": -1,
        "itag": None,
    }
    get_info_attributes: ClassVar = ["min_tick", "retry_delay", "crawl_config"]
    merge_task_fields: ClassVar = [*REQUIRED, "status", "schedule", "lastcrawltime"]
    request_task_fields: ClassVar = [*REQUIRED, "status", *DOCUMENTS, "lastcrawltime"]

    def __init__(
        self,
        taskdb: Any,
        projectdb: Any,
        newtask_queue: Any,  # noqa: ARG002
        status_queue: Any,  # noqa: ARG002
        out_queue: Any,
        data_path: str = "./data",  # noqa: ARG002
        resultdb: Any = None,
        *,
        slots: int,
        cluster: str = "",
    ) -> None:
        self.out_queue = out_queue
        self.fence = Fence(slots)
        self.databases = FencedDatabases(taskdb, projectdb, resultdb, self.fence, cluster)
        self.taskdb: TaskStore = self.databases.tasks
        self.projectdb = self.databases.projectdb
        self.resultdb = self.databases.resultdb
        self.projects: dict[str, LoadedProject] = {}
        self.counters = new_counters()
        self.counts = TaskCounts(self.counters)
        self.calls = PostedCalls()
        self.lock = threading.RLock()
        self._uncounted: list[tuple[TaskKey, str]] = []
        self.inherited: dict[str, float] = {}
        self.attention = Attention(WindowSize())
        self.dispatch = Dispatch(lambda: self.out_queue, self._may_send, self._on_sent)

    def __len__(self) -> int:
        return sum(len(project.task_queue) for project in self.projects.values())

    # -- what is in memory ------------------------------------------------------------------------

    def is_full(self, project: LoadedProject) -> bool:
        """Return whether new tasks of a project are ignored (``INQUEUE_LIMIT``)."""
        return 0 < self.INQUEUE_LIMIT <= len(project.task_queue)

    def is_under_way(self, task: Mapping[str, Any]) -> bool:
        """Return whether a task is with fetcher or processor; its pack may have arrived already."""
        project = self.projects.get(task["project"])
        return project is not None and project.task_queue.is_processing(task["taskid"])

    def is_paused(self, project: LoadedProject) -> bool:
        """Return whether a project rests, because its latest tasks have failed."""
        return project.pause.follow(
            project.active_tasks,
            time.time(),
            failures=self.FAIL_PAUSE_NUM,
            seconds=self.PAUSE_TIME,
            checks=self.UNPAUSE_CHECK_NUM,
        )

    def task_verify(self, task: Mapping[str, Any]) -> bool:
        """Return whether a task has what it needs, and a project that is active."""
        missing = [key for key in REQUIRED if not task.get(key)]
        if missing:
            logger.error("%s not in task: %.200r", missing[0], task)
            return False
        project = self.projects.get(task["project"])
        if project is None:
            logger.error("unknown project: %s", task["project"])
            return False
        if not project.active:
            logger.error(
                "project %s not started, please set status to RUNNING or DEBUG", project.name
            )
        return project.active

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
        refused = self.taskdb.commit(self.databases.check_all, beat)
        self._count_all_but(refused)
        for (project, taskid), error in refused.items():
            logger.error("the row of task %s:%s is refused: %r", project, taskid, error)
        return refused

    def _count(self, task: Task, change: str) -> None:
        """Count a change of a task once its row is written."""
        self._uncounted.append(((task["project"], task["taskid"]), change))

    def _count_all_but(self, refused: Collection[TaskKey]) -> None:
        """Count what was written; a project that went meanwhile has no counters any more."""
        changes, self._uncounted = self._uncounted, []
        with self.counts.collecting():
            for key, change in changes:
                if key not in refused and key[0] in self.projects:
                    self.counts.count(key[0], change)

    # -- requests ---------------------------------------------------------------------------------

    def request(self, given: Mapping[str, Any]) -> bool:
        """Apply a request for a task of an active project, unless it changes nothing.

        Returns:
            False: it must wait, for it is to change a task that is in flight.
        """
        project, taskid = self.projects[given["project"]], given["taskid"]
        tasks = project.task_queue
        is_forced = given.get("schedule", {}).get("force_update", False)
        if is_forced and tasks.is_processing(taskid):
            return False
        result = None
        if is_forced or not self._is_pending(project, taskid):
            undo = tasks.undo(taskid)
            result = self.on_request(own_task(given))
            self.taskdb.on_refusal(project.name, taskid, undo)
        if result is None:
            logger.debug("ignore newtask %(project)s:%(taskid)s %(url)s", given)
            self.counts.unchanged += 1
        return True

    def _is_pending(self, project: LoadedProject, taskid: Any) -> bool:
        """Return whether a task waits or is in flight; it may stand in its row alone."""
        if taskid in project.task_queue or not project.task_queue.unloaded:
            return taskid in project.task_queue
        row = self.taskdb.get_task(project.name, taskid, ["status"])
        return row is not None and row["status"] == self.taskdb.ACTIVE

    def on_request(self, task: Task) -> Any:
        """Apply a request; one that changes nothing returns None."""
        project = self.projects[task["project"]]
        if self.is_full(project):
            logger.debug("overflow task %(project)s:%(taskid)s %(url)s", task)
            return None
        former = self.taskdb.get_task(project.name, task["taskid"], self.merge_task_fields)
        return self.on_new_request(task) if former is None else self.on_old_request(task, former)

    def on_new_request(self, task: Task) -> Any:
        """Store a new task, and let it run."""
        task["status"] = self.taskdb.ACTIVE
        self.insert_task(task)
        self.put_task(task)
        self._count(task, NEW)
        logger.info("new task %(project)s:%(taskid)s %(url)s", task)
        return task

    def on_old_request(self, task: Task, old_task: Mapping[str, Any]) -> Any:
        """Apply a request for a task that has a row; unusable parts of the row are ignored.

        An ACTIVE row that is not in memory is of a task that waits there; or it was written by an
        owner that died, or was suspended, before it had completed its message.
        """
        former = usable_schedule(old_task.get("schedule"))
        tasks = self.projects[task["project"]].task_queue
        is_pending = old_task["status"] == self.taskdb.ACTIVE
        if is_pending and task["taskid"] not in tasks:
            if tasks.unloaded:
                tasks.unloaded.take_one()  # it is put, or cancelled
            else:
                self.put_task({**task, "schedule": former})
        schedule: Any = task.get("schedule", self.default_schedule)
        asked, crawled = ScheduleTerms.of(schedule), old_task.get("lastcrawltime")
        age, since = self.default_schedule["age"], crawled if is_number(crawled) else 0
        if not restarts(asked, since, former, age, time.time()):
            return None
        self.dispatch.withdraw(task["project"], task["taskid"])  # what waits is as it was before
        if schedule.get("cancel"):
            result = self._cancel(task)
        else:
            if "schedule" in task:
                task["schedule"] = schedule_again(schedule, asked, former, is_pending=is_pending)
            result = self._restart(task, old_task["status"])
        if old_task["status"] == self.taskdb.FAILED or former.get("retried"):
            self.taskdb.note_failure(task["project"], task["taskid"], None)
        return result

    def _cancel(self, task: Task) -> Task:
        logger.info("cancel task %(project)s:%(taskid)s %(url)s", task)
        task["status"] = self.taskdb.BAD
        self.update_task(task)
        self.projects[task["project"]].task_queue.delete(task["taskid"])
        return task

    def _restart(self, task: Task, status: int) -> Task:
        task["status"] = self.taskdb.ACTIVE
        self.update_task(task)
        self.put_task(task)
        if status != self.taskdb.ACTIVE:
            of = {self.taskdb.SUCCESS: RESTARTED_DONE, self.taskdb.FAILED: RESTARTED_FAILED}
            self._count(task, of.get(status, RESTARTED))
        logger.info("restart task %(project)s:%(taskid)s %(url)s", task)
        return task

    def insert_task(self, task: Task) -> Any:
        """Add a task's row with the next commit."""
        return self.taskdb.insert(task["project"], task["taskid"], task)

    def update_task(self, task: Task) -> Any:
        """Change a task's row with the next commit."""
        return self.taskdb.update(task["project"], task["taskid"], task)

    def put_task(self, task: Task) -> None:
        """Let a task run, once it is due."""
        schedule = {**self.default_schedule, **task.get("schedule", {})}
        tasks = self.projects[task["project"]].task_queue
        tasks.put(task["taskid"], schedule["priority"], schedule["exetime"])

    # -- status packs -----------------------------------------------------------------------------

    def on_task_status(self, task: Task) -> Any:
        """Apply a status pack, also one of a task that a former owner dispatched.

        Args:
            task: it passed ``check_pack``.
        """
        project, taskid = self.projects[task["project"]], task["taskid"]
        tasks = project.task_queue
        if not tasks.is_processing(taskid) and self._is_inherited(project.name, taskid):
            self._take_over(project, taskid)
        undo = tasks.undo(taskid)
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
        for event, report in (("fetch_time", fetched), ("process_time", processed)):
            if report.get("time"):
                self.counts.time(project.name, event, report["time"])
        project.active_tasks.appendleft((time.time(), task))
        self.dispatch.withdraw(project.name, taskid, answered)
        self.taskdb.on_refusal(project.name, taskid, undo)
        return result

    def _is_inherited(self, project: str, taskid: Any) -> bool:
        """Return whether a former owner may have sent a task before it died.

        If so, the task was due then, and its row has not changed since.
        """
        since = self.inherited.get(project)
        if since is None or self.taskdb.has_written(project, taskid):
            return False
        row = self.taskdb.get_task(project, taskid, ["status", "updatetime", "schedule"])
        if row is None or row["status"] != self.taskdb.ACTIVE:
            return False
        written, exetime = row["updatetime"], usable_schedule(row["schedule"]).get("exetime", 0)
        return bool(is_number(written) and written < since and exetime <= since)

    def _take_over(self, project: LoadedProject, taskid: str) -> None:
        """Let a task count as in flight that a former owner sent."""
        tasks = project.task_queue
        if not tasks.delete(taskid):
            tasks.unloaded.take_one()
        tasks.put_in_flight(taskid, 0, time.time() + tasks.processing_timeout)
        tasks.doubt([taskid])
        project.has_sent |= taskid != ON_FINISHED

    def on_task_done(self, task: Task) -> Any:
        """Store that a task has succeeded, or let it run again if it does so by itself."""
        task["status"], task["lastcrawltime"] = self.taskdb.SUCCESS, time.time()
        has_failed = "schedule" not in task or task["schedule"].get("retried")
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
        if has_failed:
            self.taskdb.note_failure(task["project"], task["taskid"], None)
        self._count(task, DONE)
        logger.info("task done %(project)s:%(taskid)s %(url)s", task)
        return task

    def on_task_failed(self, task: Task) -> Any:
        """Store that a task is given up, or let it run again later."""
        if "schedule" not in task:
            row = self.taskdb.get_task(task["project"], task["taskid"], ["schedule"])
            if row is None:
                logger.error("unknown status pack: %s", task)
                return None
            task["schedule"] = usable_schedule(row["schedule"])
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
        self._note_failure(task, is_given_up=False)
        self.put_task(task)
        self._count(task, RETRIED)
        tries = f"{int(retried)}/{int(retries)}"
        logger.info(f"task retry {tries} %(project)s:%(taskid)s %(url)s", task)
        return task

    def _give_up(self, task: Task) -> Task:
        task["status"] = self.taskdb.FAILED
        self.update_task(task)
        self._note_failure(task, is_given_up=True)
        self._count(task, FAILED)
        logger.info("task failed %(project)s:%(taskid)s %(url)s", task)
        return task

    def _note_failure(self, task: Task, *, is_given_up: bool) -> None:
        failure = failure_of(task, is_given_up=is_given_up)
        self.taskdb.note_failure(task["project"], task["taskid"], failure)

    # -- sending ----------------------------------------------------------------------------------

    def on_select_task(self, task: Task) -> Any:
        """Send a task to the fetcher; a part that is not a mapping, such as a NULL, is empty.

        From now on it counts as lost once it has taken longer than it may.
        """
        project = self.projects[task["project"]]
        logger.info("select %(project)s:%(taskid)s %(url)s", task)
        for part in DOCUMENTS:
            if part in task and not isinstance(task[part], dict):
                task[part] = {}
        if task.get("schedule", {}).get(UNCONDITIONAL) and "track" in task:
            task["track"] = without_validators(task["track"])
        task.update(
            type=SENT,
            group=project.group,
            project_md5sum=project.md5sum,
            project_updatetime=project.updatetime,
        )
        if project.crawl_config:
            task = BaseHandler.task_join_crawl_config(task, project.crawl_config)
        project.active_tasks.appendleft((time.time(), task))
        self.send_task(task)
        lasting = time_in_flight(task, project.task_queue.processing_timeout)
        if lasting > project.task_queue.processing_timeout:
            project.task_queue.sent(task["taskid"], lasting)
        return task

    def send_task(self, task: Task) -> None:
        """Dispatch a task to the fetchers; without room, or with a closed fence, it waits."""
        self.dispatch.send(task)

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

    def send_by_hand(self, task: Task) -> None:
        """Dispatch a task at once, without the fence; if the queue is full, in a later round.

        Threads: any.

        Raises:
            Unavailable: the queue is full, and there is no later round.
        """
        try:
            self.out_queue.put_nowait(task)
        except queue.Full:
            if not self.calls.post(partial(self.dispatch.wait, [task])):
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
