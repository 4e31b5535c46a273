"""Router: one XML-RPC interface that speaks for the whole cluster.

It has pyspider's method names, so web UI and scripts do not notice that there are many
schedulers. Queries go to all members at once and the results are merged; a task goes to the
member that owns its project. Between members only the ``local_...`` names are used, which are
never forwarded.
"""

import heapq
import logging
import threading
import time
import xmlrpc.client
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import Any, TypedDict

from pyspider_zk.cluster.records import Cluster, Member
from pyspider_zk.errors import BadMessage, ClusterError
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.rpc.client import Credentials, call
from pyspider_zk.zookeeper.codec import checked

logger = logging.getLogger(__name__)

ACTIVE_TASKS = "local_get_active_tasks"

Counters = dict[str, dict[str, Any]]

Entry = tuple[float, dict[str, Any]]
"""When a task was sent or had ended, and the task."""


class _Dashboard(TypedDict):
    pause_status: dict[str, bool]
    counter: dict[str, Counters | None]


class Router:
    """pyspider's scheduler interface for the whole cluster.

    Threads: any. Every call blocks up to some seconds.

    Args:
        read: returns the current cluster; if it raises ``ClusterError`` the last known one is
            used.
        fresh_for: how many seconds a reading is used.
        timeout: how many seconds a member may take to respond.
        credentials: for calling members.
    """

    def __init__(
        self,
        read: Callable[[], Cluster],
        fresh_for: float = 1.0,
        timeout: float = 5.0,
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
    ) -> None:
        self._read = read
        self._credentials = credentials
        self._fresh_for = fresh_for
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: Cluster | None = None
        self._known_at = float("-inf")
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="router")

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def size(self) -> int:
        """Return how many tasks all schedulers hold in memory."""
        return sum(self._ask_all("local_size", shape=int))

    def counter(self, window: str, value: str) -> Counters | None:
        """Return one window of all projects' counters, None if there is no such window."""
        answers = self._ask_all("local_counter", window, value, shape=Counters | None)
        known = [answer for answer in answers if answer is not None]
        return _union(known) if known else None

    def get_projects_pause_status(self) -> dict[str, bool]:
        """Return for each project whether it is paused after failures."""
        return _union(self._ask_all("local_get_projects_pause_status", shape=dict[str, bool]))

    def quarantine(self) -> dict[str, dict[str, Any]]:
        """Return the reason for each project in quarantine."""
        return _union(self._ask_all("local_quarantine"))

    def webui_update(self) -> dict[str, Any]:
        """Return the dashboard's data."""
        answers = self._ask_all("local_webui_update", shape=_Dashboard)
        windows = {window for answer in answers for window in answer["counter"]}
        return {
            "pause_status": _union([answer["pause_status"] for answer in answers]),
            "counter": {
                window: _union([answer["counter"].get(window) or {} for answer in answers])
                for window in windows
            },
        }

    def get_active_tasks(self, project: str | None = None, limit: int = 100) -> list[Any]:
        """Return the latest tasks, newest first: of one project or of all."""
        check_limit(limit)
        return newest(self._ask_all(ACTIVE_TASKS, project, limit, shape=list[Entry]), limit)

    def update_project(self) -> None:
        """Make every scheduler check the project database now."""
        self._ask_all("local_update_project")

    def newtask(self, task: Mapping[str, Any]) -> bool:
        """Schedule a task; return False if it is invalid or its project does not run."""
        return bool(self._ask_owner("local_newtask", task))

    def send_task(self, task: Mapping[str, Any]) -> bool:
        """Dispatch a task to the fetcher, bypassing the queue; return False without its project."""
        return bool(self._ask_owner("local_send_task", task))

    def _ask_all(self, method: str, *args: Any, shape: Any = Any) -> list[Any]:
        """Call every member; skip those that cannot be reached, or whose response is invalid.

        Args:
            shape: the type that a response must have.

        Raises:
            OSError: none can be reached.
            xmlrpc.client.Fault: all that can be reached return an error.
        """
        answers: list[Any] = []
        fault: xmlrpc.client.Fault | None = None
        for member, answer in self._answers(method, *args):
            if isinstance(answer, xmlrpc.client.Fault):
                fault = answer
            elif not isinstance(answer, OSError) and _is_of_shape(shape, method, member, answer):
                answers.append(answer)
        if not answers and fault is not None:
            raise fault
        if not answers:
            self._forget()
            raise ConnectionRefusedError("no scheduler can be reached")
        return answers

    def ask(
        self, method: str, *args: Any, past: Collection[MemberId] = (), shape: Any = Any
    ) -> tuple[dict[MemberId, Any], list[MemberId]]:
        """Call every member; return the results, and the members without one.

        A member that returns an error has none: it may be of an older version.

        Args:
            past: members not to call.
            shape: the type that a result has.

        Raises:
            OSError: ZooKeeper does not answer, and no members are known.
        """
        answers: dict[MemberId, Any] = {}
        silent = []
        for member, answer in self._answers(method, *args, past=past):
            if isinstance(answer, Exception) or not _is_of_shape(shape, method, member, answer):
                silent.append(member)
            else:
                answers[member] = answer
        return answers, silent

    def _answers(
        self, method: str, *args: Any, past: Collection[MemberId] = ()
    ) -> Iterator[tuple[MemberId, Any]]:
        """Call every member at once; yield what each answers: a value, a ``Fault`` or an OSError.

        The last means that it cannot be reached.
        """
        calls = {
            member: self._pool.submit(copy_context().run, self._call, record, method, *args)
            for member, record in self._cluster().members.items()
            if member not in past
        }
        for member, future in calls.items():
            try:
                yield member, future.result()
            except xmlrpc.client.Fault as fault:
                logger.warning("%s at member %s: %s", method, member, fault)
                yield member, fault
            except OSError as error:
                logger.warning("member %s cannot be reached: %s", member, error)
                self._forget()
                yield member, error

    def _call(self, member: Member, method: str, *args: Any) -> Any:
        return call(member, method, *args, credentials=self._credentials, timeout=self._timeout)

    def _ask_owner(self, method: str, task: Mapping[str, Any]) -> Any:
        """Call the owner of the task's project; any other member if it has none at the moment."""
        cluster = self._cluster()
        project = task.get("project") if isinstance(task, Mapping) else None
        owner = cluster.owner_of(project) if isinstance(project, str) else None
        others = [member for member in cluster.members.values() if member != owner]
        for member in [owner, *others] if owner else others:
            try:
                return self._call(member, method, task)
            except OSError as error:
                logger.warning("%s at %s: %s", method, member.address, error)
                self._forget()
        raise ConnectionRefusedError("no scheduler can be reached")

    def _cluster(self) -> Cluster:
        with self._lock:
            now = time.monotonic()
            if self._known is None or now - self._known_at > self._fresh_for:
                self._known = self._look() or self._known
                self._known_at = now
            if self._known is None:
                raise ConnectionError("ZooKeeper does not answer and no scheduler is known yet")
            return self._known

    def _look(self) -> Cluster | None:
        try:
            return self._read()
        except ClusterError as error:
            logger.warning("the last known schedulers have to serve: %s", error)
            return None

    def _forget(self) -> None:
        """Read again at the next call; the last reading is kept as a fallback."""
        with self._lock:
            self._known_at = float("-inf")


def newest(answers: Iterable[list[Entry]], limit: int) -> list[Entry]:
    """Merge the latest tasks of some members, newest first."""
    merged = heapq.merge(*answers, key=lambda entry: entry[0], reverse=True)
    return list(islice(merged, max(0, limit)))


def _union(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge what each owner reports of its own projects; no project has two owners."""
    return {project: value for answer in answers for project, value in answer.items()}


def check_limit(limit: object) -> None:
    """Raise a ``Fault`` unless this can be a number of entries."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise xmlrpc.client.Fault(400, f"limit must be a whole number, not {limit!r:.80}")


def _is_of_shape(shape: Any, method: str, member: MemberId, answer: object) -> bool:
    try:
        checked(shape, answer)
    except BadMessage:
        logger.warning("%s: member %s answers junk: %.80r", method, member, answer)
        return False
    return True
