"""One XML-RPC interface that speaks for the whole cluster.

It has pyspider's method names, so web UI and scripts do not notice that there are many
schedulers. Questions go to all members at once and the answers are put together; a task goes to
the member that owns its project. Between members only the ``local_...`` names are used, which
never ask further.
"""

import gzip
import heapq
import http.client
import logging
import threading
import time
import xmlrpc.client
import zlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any
from xml.parsers.expat import ExpatError

from pyspider_zk.core.records import Cluster, Member, MemberId
from pyspider_zk.errors import ClusterError

logger = logging.getLogger("pyspider_zk.router")

CHUNK = 2**16  # bytes
ANSWER_LIMIT = 64 * 2**20  # bytes; about 10,000 projects with all their counters

# What is no answer makes the parser raise whatever it likes.
_NO_ANSWER = (
    http.client.HTTPException,
    xmlrpc.client.Error,
    ExpatError,
    EOFError,
    zlib.error,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)

Counters = dict[str, dict[str, Any]]


class _Transport(xmlrpc.client.Transport):
    """A transport that neither waits nor reads for ever."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._timeout
        return connection

    def single_request(
        self,
        host: Any,
        handler: str,
        request_body: Any,
        verbose: bool = False,
    ) -> Any:
        """Ask once, as the base does; whatever comes, the connection is closed after it."""
        try:
            connection = self.send_request(host, handler, request_body, verbose)
            with closing(connection.getresponse()) as response:
                if response.status != http.HTTPStatus.OK:
                    raise xmlrpc.client.ProtocolError(
                        f"{host}{handler}", response.status, response.reason, {}
                    )
                return self._parsed(_inflated(response))
        finally:
            self.close()

    def _parsed(self, reader: Any) -> Any:
        """Read an answer, but not without an end."""
        until = time.monotonic() + self._timeout
        parser, unmarshaller = self.getparser()
        size = 0
        while data := reader.read1(CHUNK):
            size += len(data)
            if size > ANSWER_LIMIT or time.monotonic() > until:
                raise xmlrpc.client.Error(f"no end after {size} bytes")
            parser.feed(data)
        parser.close()
        return unmarshaller.close()


def _inflated(response: Any) -> Any:
    """Return what an answer is read from."""
    if response.getheader("Content-Encoding", "") != "gzip":
        return response
    return gzip.GzipFile(fileobj=response, mode="rb")


def call(member: Member, method: str, *args: Any, timeout: float = 5.0) -> Any:
    """Call one member.

    Raises:
        OSError: it cannot be reached, or what answers there is no scheduler (any more); the one
            error that pyspider's views expect.
        xmlrpc.client.Fault: it answered with an error.
    """
    url = f"http://{member.address}/"
    with xmlrpc.client.ServerProxy(url, _Transport(timeout), allow_none=True) as proxy:
        try:
            return getattr(proxy, method)(*args)
        except (xmlrpc.client.Fault, OSError):
            raise
        except _NO_ANSWER as error:
            raise ConnectionError(f"{method} at {member.address}: {error}") from error


class Router:
    """pyspider's scheduler interface for the whole cluster.

    Threads: any. Every call blocks up to some seconds.

    Args:
        read: returns the cluster as it is; may raise ``ClusterError``, then the last known one
            serves.
        fresh_for: how many seconds one reading serves.
        timeout: how many seconds a member may take for its answer.
    """

    def __init__(
        self, read: Callable[[], Cluster], fresh_for: float = 1.0, timeout: float = 5.0
    ) -> None:
        self._read = read
        self._fresh_for = fresh_for
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: Cluster | None = None
        self._known_at = float("-inf")
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="router")

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def size(self) -> int:
        """Return how many tasks all schedulers hold in memory."""
        return sum(self._ask_all("local_size", shape=_is_size))

    def counter(self, window: str, value: str) -> Counters | None:
        """Return one window of all projects' counters, None if there is no such window."""
        answers = self._ask_all("local_counter", window, value, shape=_are_counters)
        known = [answer for answer in answers if answer is not None]
        return _union(known) if known else None

    def get_projects_pause_status(self) -> dict[str, bool]:
        """Return for each project whether it is paused after failures."""
        return _union(self._ask_all("local_get_projects_pause_status", shape=_are_flags))

    def quarantine(self) -> dict[str, dict[str, Any]]:
        """Return what is wrong with each project that is left alone."""
        return _union(self._ask_all("local_quarantine"))

    def webui_update(self) -> dict[str, Any]:
        """Return what the dashboard shows."""
        answers = self._ask_all("local_webui_update", shape=_is_dashboard)
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
        answers = self._ask_all("local_get_active_tasks", project, limit, shape=_are_tasks)
        newest = heapq.merge(*answers, key=lambda entry: entry[0], reverse=True)
        return [entry for entry, _ in zip(newest, range(limit), strict=False)]

    def update_project(self) -> None:
        """Make every scheduler look at the project database now."""
        self._ask_all("local_update_project")

    def newtask(self, task: Mapping[str, Any]) -> bool:
        """Schedule a task; return False if it is none or its project does not run."""
        return bool(self._ask_owner("local_newtask", task))

    def send_task(self, task: Mapping[str, Any]) -> bool:
        """Dispatch a task to the fetcher, past the scheduler's queue."""
        return bool(self._ask_owner("local_send_task", task))

    def _ask_all(
        self, method: str, *args: Any, shape: Callable[[Any], bool] = lambda _: True
    ) -> list[Any]:
        """Ask every member; leave out those that cannot be reached, or whose answer is junk.

        Args:
            shape: tells whether an answer is what the question asks for.

        Raises:
            OSError: none can be reached.
            xmlrpc.client.Fault: all that can be answer with an error.
        """
        answers: list[Any] = []
        fault: xmlrpc.client.Fault | None = None
        for member, future in self._asked(method, *args).items():
            try:
                found = self._got(member, future)
            except xmlrpc.client.Fault as error:
                logger.warning("%s at member %s: %s", method, member, error)
                fault = error
                continue
            answers += [each for each in found if _is_of_shape(shape, method, member, each)]
        if not answers and fault is not None:
            raise fault
        if not answers:
            self._forget()
            raise ConnectionRefusedError("no scheduler can be reached")
        return answers

    def ask(
        self, method: str, *args: Any, past: Collection[MemberId] = ()
    ) -> tuple[dict[MemberId, Any], list[MemberId]]:
        """Ask every member; return the answers, and the members that gave none.

        A member that answers with an error gives none: it may be of an older version.

        Args:
            past: members not to ask.

        Raises:
            OSError: ZooKeeper does not tell who there is, and never did.
        """
        answers: dict[MemberId, Any] = {}
        silent = []
        for member, future in self._asked(method, *args, past=past).items():
            try:
                got = self._got(member, future)
            except xmlrpc.client.Fault as fault:
                logger.warning("%s at member %s: %s", method, member, fault)
                got = []
            if got:
                answers[member] = got[0]
            else:
                silent.append(member)
        return answers, silent

    def _asked(
        self, method: str, *args: Any, past: Collection[MemberId] = ()
    ) -> dict[MemberId, Future[Any]]:
        return {
            member: self._pool.submit(call, record, method, *args, timeout=self._timeout)
            for member, record in self._cluster().members.items()
            if member not in past
        }

    def _got(self, member: MemberId, future: Future[Any]) -> list[Any]:
        try:
            return [future.result()]
        except OSError as error:
            logger.warning("member %s cannot be reached: %s", member, error)
            self._forget()
            return []

    def _ask_owner(self, method: str, task: Mapping[str, Any]) -> Any:
        """Ask the owner of the task's project; any other member if it has none just now."""
        cluster = self._cluster()
        project = task.get("project") if isinstance(task, Mapping) else None
        owner = cluster.owner_of(project) if isinstance(project, str) else None
        others = [member for member in cluster.members.values() if member != owner]
        for member in [owner, *others] if owner else others:
            try:
                return call(member, method, task, timeout=self._timeout)
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
        """Look again at the next call; what is known stays in reserve."""
        with self._lock:
            self._known_at = float("-inf")


def _union(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Put together what each owner says of its own projects; no project has two owners."""
    return {project: value for answer in answers for project, value in answer.items()}


def check_limit(limit: object) -> None:
    """Make sure that a number of entries is one.

    Raises:
        xmlrpc.client.Fault: it is none.
    """
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise xmlrpc.client.Fault(400, f"limit must be a whole number, not {limit!r:.80}")


def _is_of_shape(
    shape: Callable[[Any], bool], method: str, member: MemberId, answer: object
) -> bool:
    if shape(answer):
        return True
    logger.warning("%s: member %s answers junk: %.80r", method, member, answer)
    return False


def _is_size(answer: Any) -> bool:
    return isinstance(answer, int) and not isinstance(answer, bool)


def _is_mapping(answer: Any) -> bool:
    return isinstance(answer, dict)


def _are_flags(answer: Any) -> bool:
    return _is_mapping(answer) and all(isinstance(flag, bool) for flag in answer.values())


def _are_counters(answer: Any) -> bool:
    """A window of counters, or None for there is none."""
    return answer is None or (_is_mapping(answer) and all(map(_is_mapping, answer.values())))


def _is_dashboard(answer: Any) -> bool:
    return (
        _is_mapping(answer)
        and _are_flags(answer.get("pause_status"))
        and _is_mapping(answer.get("counter"))
        and all(map(_are_counters, answer["counter"].values()))
    )


def _are_tasks(answer: Any) -> bool:
    return isinstance(answer, list) and all(map(_is_entry, answer))


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], int | float)
        and _is_mapping(entry[1])
    )
