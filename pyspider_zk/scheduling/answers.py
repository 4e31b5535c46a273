"""Answers of a member by XML-RPC.

Under pyspider's names a member answers for the whole cluster, so that the stock web UI may be
pointed at any member. Under the same names with the prefix ``local_`` it answers for itself.
"""

import functools
import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from xmlrpc.client import Fault

from pyspider_zk.errors import BadMessage, BadRequest, DatabaseAway, Unavailable
from pyspider_zk.jobs.operations import is_locked
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import check_task
from pyspider_zk.rpc.admission import current_caller
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import Functions
from pyspider_zk.rpc.values import xmlrpc_value
from pyspider_zk.scheduling.counters import read_counters
from pyspider_zk.scheduling.numbers import ProjectNumbers
from pyspider_zk.scheduling.operation_answers import LOCK_REMEDY
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.tasks.store import TaskStore

logger = logging.getLogger("scheduler")

_SHOWN = ("type", "taskid", "project", "status", "url", "lastcrawltime", "updatetime", "track")
_SHOWN_TRACK = ("ok", "time", "follows", "status_code")
Entry = tuple[float, Mapping[str, Any]]
"""Of the log of active tasks: when, in seconds since the epoch, and the task."""

MOST_SHOWN = 100_000  # tasks in one answer
_DASHBOARD = {"5m_time": "avg", "5m": "sum", "1h": "sum", "1d": "sum", "all": "sum"}


def rpc_functions(slot_scheduler: SlotScheduler, router: Router) -> Functions:
    """Return pyspider's functions as a member serves them; the router answers for the cluster."""
    local = LocalAnswers(slot_scheduler)
    names = (
        "size",
        "counter",
        "newtask",
        "send_task",
        "update_project",
        "get_active_tasks",
        "get_projects_pause_status",
        "webui_update",
        "quarantine",
    )
    functions: dict[str, Any] = {}
    for name in names:
        functions[name] = _asking(getattr(router, name))
        functions[f"local_{name}"] = _answering(getattr(local, name))
    for name in ("local_newtask", "local_send_task"):  # which the router calls as well
        functions[name] = local.unlocked(functions[name])
    numbers = ProjectNumbers(slot_scheduler)
    for name in ("project_numbers", "project_history", "throughput"):
        functions[f"local_{name}"] = _answering(getattr(numbers, name))
    return functions


def _answering(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, answering with a fault if it cannot do what it is asked."""

    @functools.wraps(function)
    def answer(*args: Any) -> Any:
        try:
            return function(*args)
        except (BadMessage, BadRequest) as error:
            raise Fault(400, f"{function.__name__}: {error}") from error
        except Unavailable as error:
            raise Fault(503, f"{function.__name__}: {error}") from error

    return answer


def _asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, answering with a fault if no member could be reached."""

    @functools.wraps(function)
    def ask(*args: Any) -> Any:
        try:
            return function(*args)
        except OSError as error:
            raise Fault(503, f"{function.__name__}: {error}") from error

    return ask


class LocalAnswers:
    """The answers of one scheduler about what it has in memory.

    Threads: any; data that changes as projects come and go is read under the project-set lock.
    """

    def __init__(self, slot_scheduler: SlotScheduler) -> None:
        self._engine = slot_scheduler.engine
        self._rows = slot_scheduler.rows
        self._queues = slot_scheduler.queues
        self._quarantine = slot_scheduler.quarantine
        self._projectdb: Any = None
        self._projectdb_lock = threading.Lock()
        self._tasks: TaskStore | None = None
        self._tasks_lock = threading.Lock()

    def size(self) -> int:
        """Return how many tasks are in memory."""
        with self._engine.lock:
            return len(self._engine)

    def counter(self, window: str, value: str) -> dict[str, dict[str, Any]] | None:
        """Return one window of the counters, None if there is no such window."""
        manager = self._engine.counters.get(window) if isinstance(window, str) else None
        if manager is None or value not in ("sum", "avg"):
            logger.error("there is no counter %.80r %.80r", window, value)
            return None
        return read_counters(manager, value)

    def get_projects_pause_status(self) -> dict[str, bool]:
        """Return for each project whether it is paused after failures."""
        with self._engine.lock:
            return {
                name: project.pause.state is True for name, project in self._engine.projects.items()
            }

    def webui_update(self) -> dict[str, Any]:
        """Return what the dashboard shows."""
        return {
            "pause_status": self.get_projects_pause_status(),
            "counter": {
                window: self.counter(window, value) for window, value in _DASHBOARD.items()
            },
        }

    def get_active_tasks(self, project: str | None = None, limit: int = 100) -> list[Any]:
        """Return copies of the latest tasks, newest first.

        pyspider itself would strip its live tasks, which may not be sent yet, to the fields shown.

        Raises:
            BadRequest: the project or the limit is not valid.
        """
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise BadRequest(f"limit must be a whole number, not {limit!r:.80}")
        if not isinstance(project, str | None):
            raise BadRequest(f"project must be a name, not {project!r:.80}")
        with self._engine.lock:
            logs: list[list[Entry]] = [
                list(known.active_tasks)
                for name, known in self._engine.projects.items()
                if not project or name == project
            ]
        if project and project in self._engine.inherited:
            logs.append(self._ended_before(project, logs[0] if logs else []))
        newest = heapq.merge(*logs, key=lambda entry: entry[0], reverse=True)
        return [
            [when, xmlrpc_value(_shown(task))]
            for when, task in itertools.islice(newest, min(max(0, limit), MOST_SHOWN))
        ]

    def _ended_before(self, project: str, log: Sequence[Entry]) -> list[Entry]:
        """Return what a log lacks of a project whose former owner took its own along: from rows."""
        known = {task["taskid"] for _, task in log}
        most = max(0, self._engine.ACTIVE_TASKS - len(log))
        with self._tasks_lock, suppress(DatabaseAway):
            tasks = self._tasks = self._tasks or self._engine.databases.reader()
            tasks.look_again()
            taskids = tasks.last_ended(project, most + len(known))
            rows = tasks.get_many(project, taskids, _SHOWN[1:])
            found = (row for taskid in taskids if (row := rows.get(taskid)) is not None)
            new = (row for row in found if row["taskid"] not in known)
            return [(row["lastcrawltime"], row) for row in itertools.islice(new, most)]
        return []

    def quarantine(self) -> dict[str, dict[str, Any]]:
        """Return what is wrong with each project in quarantine."""
        told: dict[str, dict[str, Any]] = xmlrpc_value(self._quarantine.told())
        return told

    def update_project(self) -> None:
        """Read the project database in the next round."""
        self._engine.calls.post(self._rows.look_soon)

    def newtask(self, task: Any) -> bool:
        """Put a task on its slot's queue; return False if that is not possible.

        That is, it is no task, its project is off, or the queue is full or away: pyspider would
        wait, but a caller that gives up calls the next member, and then all of them wait.
        """
        try:
            check_task(task)
        except BadMessage as error:
            logger.error("newtask refused: %s", error)
            return False
        if not self._is_active(task["project"]):
            logger.error("project %s is not RUNNING or DEBUG", task["project"])
            return False
        return self._publish(task)

    def send_task(self, task: dict[str, Any]) -> bool:
        """Dispatch a task to the fetcher at once, or as soon as its queue has room.

        Returns False if there is no such project.

        Raises:
            BadMessage: it is no task, or cannot be sent.
            Unavailable: its queue has no room, and this scheduler has ended.
        """
        check_task(task)
        encode(task)  # one that cannot be encoded would fail every round of the scheduler
        if not self._row(task["project"]):
            return False
        self._engine.send_by_hand(task)
        return True

    def _publish(self, task: dict[str, Any]) -> bool:
        slot = self._engine.fence.slot(task["project"])
        queues = self._queues.slot_queues
        try:
            if queues.full(QueueKind.NEWTASK, slot):
                raise Unavailable(f"the queue of slot {slot} is full")
            queues.publish([Message(QueueKind.NEWTASK, slot, task)])
        except (BadMessage, Unavailable) as error:
            logger.error("newtask refused: %s", error)
            return False
        return True

    def unlocked(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function, which only with a proof of the secret serves locked projects."""

        @functools.wraps(function)
        def ask(task: Any) -> Any:
            project = task.get("project") if isinstance(task, Mapping) else None
            if isinstance(project, str) and not current_caller().proven:
                row = self._row(project)
                if row and is_locked(row["group"]):
                    raise Fault(403, f"project {project} is locked: {LOCK_REMEDY}")
            return function(task)

        return ask

    def _is_active(self, project: str) -> bool:
        row = self._row(project)
        return bool(row) and row["status"] in ACTIVE

    def _row(self, project: str) -> Any:
        """Read the database itself: the owner may not have seen the latest change yet."""
        with self._projectdb_lock:
            if self._projectdb is None:
                self._projectdb = self._engine.projectdb.copy()
            return self._projectdb.get(project, fields=["name", "status", "group"])


def _shown(task: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: task[key] for key in _SHOWN if key in task}
    if isinstance(shown.get("track"), Mapping):
        shown["track"] = {
            part: {key: value[key] for key in _SHOWN_TRACK if key in value}
            if part in ("fetch", "process") and isinstance(value, Mapping)
            else value
            for part, value in dict(shown["track"]).items()
        }
    return shown
