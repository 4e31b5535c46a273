"""Client of a cluster for Python programs: operations on projects, and their progress.

::

    with Client("zk1:2181,zk2:2181/crawl") as client:
        batch = client.start(pattern="news_*")
        client.wait(batch.id)

It finds a scheduler through ZooKeeper and calls it by XML-RPC; if one does not answer, another is
tried. A repeated request is done once, whichever scheduler answers.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, NamedTuple, Self, TypedDict, TypeVar, Unpack
from xmlrpc.client import Fault

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_filter import FoundEvents, position_of
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.records import Member, Phase
from pyspider_zk.config import SECRET_VARIABLES, Settings, settings_from
from pyspider_zk.errors import (
    BadRequest,
    ClusterError,
    Conflict,
    NotFound,
    SessionLost,
    TimedOut,
    Unavailable,
)
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.answers import BatchStatus, Plan, Project
from pyspider_zk.jobs.model import NORMAL
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.rpc.admission import Caller, calling
from pyspider_zk.rpc.client import call, credentials_of
from pyspider_zk.tasks.failures import FailedTask, FailureKind
from pyspider_zk.tasks.filters import State
from pyspider_zk.tasks.task_search import FoundTask

__all__ = [
    "BatchStatus",
    "Client",
    "EventOptions",
    "FailedTask",
    "FailureKind",
    "FailureOptions",
    "FoundEvents",
    "FoundTask",
    "Logged",
    "Plan",
    "Project",
    "Projects",
    "RequestOptions",
    "Route",
    "SelectionOptions",
    "TaskOptions",
]

T = TypeVar("T")

PAGE = 1000  # projects or events per request
POLL = 0.5  # seconds between two requests for progress

_KINDS = (BadRequest, NotFound, Conflict, Unavailable)
_ERRORS: Mapping[int, type[ClusterError]] = {
    HTTPStatus.BAD_REQUEST: BadRequest,  # the server refuses more
    **{kind.status: kind for kind in _KINDS},
}


class SelectionOptions(TypedDict, total=False):
    """The selection of projects; a project must match all that is given.

    ``pattern`` is a shell pattern for the whole name, ``owner`` the number of a member. Without
    any, ``all`` must be true. Names or a text that are given and empty are refused.
    """

    names: Iterable[str]
    pattern: str
    group: str
    status: str
    owner: int | None
    all: bool


class RequestOptions(SelectionOptions, total=False):
    """The selection of projects, and the options of a request.

    ``batch`` is an id of your own: a repeated request with it, even from another process, has no
    further effect. ``user`` is recorded in the event log, if the cluster has a secret. Of
    ``priority``, 0 to 999, the highest comes first. ``plan`` is the digest of a plan: nothing is
    done if the selection matches other projects by then.
    """

    batch: str
    user: str
    priority: int
    plan: str


class FailureOptions(TypedDict, total=False):
    """Which failures; see ``FailureFilter``."""

    project: str
    kind: str
    callback: str
    status_code: int
    since: float
    url: str
    error: str


class EventOptions(TypedDict, total=False):
    """Which events; see ``EventFilter``."""

    group: str
    kind: str
    who: str
    q: str
    since: float
    until: float


class TaskOptions(TypedDict, total=False):
    """Which tasks; see ``TaskFilter``."""

    project: str
    url: str
    state: State
    since: float


class Projects(NamedTuple):
    """Some projects, and how many there are in all."""

    items: list[Project]
    total: int


@dataclass(frozen=True)
class Route:
    """Who schedules a project.

    Attributes:
        owner: number of the member; None: nobody at the moment.
        address: of its XML-RPC.
        next: number of the member that gets the slot once it is released.
    """

    project: str
    slot: int
    phase: Phase
    epoch: int
    owner: int | None
    address: str | None
    next: int | None


class Logged(NamedTuple):
    """An event and its place in the log."""

    sequence: int
    event: Event


class Client:
    """Client of a cluster; a context manager.

    Threads: any. Calls block until a scheduler answers, ``timeout`` seconds each at most. All
    raise ``Unavailable`` if ZooKeeper or no scheduler answers, and ``BadRequest``, with the
    cause and the remedy, if a request is invalid. Those about one batch raise ``NotFound`` if there
    is none of this id (any more).

    Args:
        cluster: ZooKeeper's addresses with the root behind them, or settings; by addresses, the
            secret is that of ``PYSPIDER_ZK_SECRET_FILE`` or ``PYSPIDER_ZK_SECRET``.
        timeout: seconds for one scheduler's answer.
    """

    def __init__(self, cluster: str | Settings, timeout: float = 15.0) -> None:
        settings = cluster if isinstance(cluster, Settings) else _settings(cluster)
        self._credentials = credentials_of(settings)
        self._where = f"{settings.hosts}{settings.root}"
        self._directory = Directory(settings)
        self._answered: MemberId | None = None
        self._timeout = timeout

    def __enter__(self) -> Self:
        """Connect to ZooKeeper.

        Raises:
            Unavailable: nothing answers.
            ConfigError: ``xmlrpc_tls_ca`` cannot be used.
        """
        self._credentials.check()
        self._directory.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.stop()

    # --- operations ---

    def start(self, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Set projects to RUNNING and call their ``on_start`` once."""
        return self.submit("start", **options)

    def stop(self, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Set projects to STOP."""
        return self.submit("stop", **options)

    def restart(self, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Drop projects' tasks, reload their scripts and start them again."""
        return self.submit("restart", **options)

    def run(self, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Call ``on_start`` of running projects."""
        return self.submit("run", **options)

    def delete(self, *, wait: bool = False, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Delete projects with all their data.

        Args:
            wait: stop them now and delete them 24 hours later, as pyspider does.
            options: which, and how.
        """
        return self.submit("delete", {"wait": wait}, **options)

    def rate(self, rate: float, burst: float, /, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Set the rate of projects, tasks per second, and their burst, tasks at once."""
        return self.submit("rate", {"rate": rate, "burst": burst}, **options)

    def group(self, group: str, /, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Put projects into a group; the one in ``options`` chooses them."""
        return self.submit("group", {"group": group}, **options)

    def status(self, status: str, /, **options: Unpack[RequestOptions]) -> BatchStatus:
        """Give projects a status; the one in ``options`` chooses them."""
        return self.submit("status", {"status": status}, **options)

    def refetch(
        self,
        *,
        tasks: Sequence[str | int] | None = None,
        state: str | None = None,
        callback: str | None = None,
        error: str | None = None,
        status_code: int | None = None,
        kind: str | None = None,
        url: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> BatchStatus:
        """Have tasks of running projects fetched again, with all their tries.

        Args:
            tasks: those with one of these ids; None: all that are in the state.
            state: those that are FAILED, SUCCESS or BAD; None: FAILED, or any if there are ids.
            callback: those whose page this method of the script gets; "": that name none.
            error: those whose last error contains this text, in capitals or not.
            status_code: those whose last answer had this one; 0: there was none.
            kind: those that fail with this kind of error, whether they are tried again or not.
            url: those whose URL contains this text, in capitals or not.
            options: the projects, and how.
        """
        ids = None if tasks is None else list(tasks)
        chosen: dict[str, Any] = {"tasks": ids, "state": state, "callback": callback}
        chosen |= {"error": error, "status_code": status_code, "kind": kind, "url": url}
        given = {name: value for name, value in chosen.items() if value is not None}
        return self.submit("refetch", given, **options)  # older schedulers know fewer

    def submit(
        self,
        operation: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[RequestOptions],
    ) -> BatchStatus:
        """Request an operation; the request is durable when this returns.

        Raises:
            Conflict: the batch's id belongs to another request, or the selection matches other
                projects than the plan.
            Unavailable: it may have been accepted if a scheduler was asked; then the message names
                the batch that it is.
        """
        batch = options.pop("batch", "") or uuid.uuid4().hex
        user, priority = options.pop("user", ""), options.pop("priority", NORMAL)
        plan = options.pop("plan", "")
        chosen, given = _selection(options), dict(arguments or {})
        asked = (operation, chosen, given, "", batch, priority, plan)
        members = self._schedulers()
        try:
            with calling(Caller(user)):
                return BatchStatus.parse(self._ask_one_of(members, "submit_operation", *asked))
        except Unavailable as error:
            raise Unavailable(f"{error}; if it was accepted, it is batch {batch}") from error

    def plan(
        self,
        operation: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        **which: Unpack[SelectionOptions],
    ) -> Plan:
        """Return what an operation would do, without doing it."""
        answer = self._ask("plan_operation", operation, _selection(which), dict(arguments or {}))
        return Plan.parse(answer)

    def cancel(self, batch: str, user: str = "") -> BatchStatus:
        """Stop a batch before its next projects; ``user`` is recorded in the event log."""
        with calling(Caller(user)):
            return BatchStatus.parse(self._ask("cancel_batch", batch))

    def retry(self, batch: str, user: str = "") -> BatchStatus:
        """Request the projects that failed in a batch again; return the new batch."""
        with calling(Caller(user)):
            return BatchStatus.parse(self._ask("retry_batch", batch))

    # --- queries ---

    def batch(self, batch: str) -> BatchStatus:
        """Return a batch with its progress."""
        return BatchStatus.parse(self._ask("get_batch", batch))

    def batches(self, offset: int = 0, limit: int | None = 100) -> list[BatchStatus]:
        """Return the batches that are kept, the newest first."""
        return list(map(BatchStatus.parse, self._ask("list_batches", offset, limit)["items"]))

    def wait(self, batch: str, timeout: float | None = None) -> BatchStatus:
        """Return a batch when it has ended.

        Raises:
            TimedOut: it had not ended in time; it goes on.
        """
        for found in self.follow(batch, timeout):
            last = found
        return last

    def follow(self, batch: str, timeout: float | None = None) -> Iterator[BatchStatus]:
        """Yield a batch each time it has progressed, until it has ended; raises as ``wait``."""
        until = None if timeout is None else time.monotonic() + timeout
        known = None
        while known is None or not known.ended:
            if known is not None:
                _rest(known, until)
            found = self.batch(batch)
            if found != known:
                yield found
            known = found

    def projects(
        self,
        sort: str = "name",
        offset: int = 0,
        limit: int | None = None,
        **which: Unpack[SelectionOptions],
    ) -> Projects:
        """Return projects; by default all.

        Args:
            sort: by this attribute; with ``-`` before it in descending order.
            offset: how many to skip.
            limit: how many at most.
            which: the selection.
        """
        selection = _selection({**which, "all": True})
        items: list[Project] = []
        while True:
            room = PAGE if limit is None else min(PAGE, limit - len(items))
            page = self._ask("list_projects", selection, sort, offset + len(items), room)
            items += map(Project.parse, page["items"])
            if not page["items"] or len(items) in (limit, page["total"] - offset):
                return Projects(items, page["total"])

    def route(self, project: str) -> Route:
        """Return who schedules a project, whether there is such a project or not."""
        cluster = self._looked_up(self._directory.read)
        slot = slot_of(check_project_name(project), cluster.meta.slots)
        row = cluster.assignment.slots[slot]
        owner = cluster.owner(slot)
        return Route(
            project=project,
            slot=slot,
            phase=row.phase,
            epoch=row.epoch,
            owner=owner.number if owner else None,
            address=cluster.members[owner].address if owner else None,
            next=row.next.number if row.next else None,
        )

    def events(
        self, after: int | None = None, limit: int = 100, *, follow: bool = False
    ) -> Iterator[Logged]:
        """Yield events, the oldest first.

        Args:
            after: those after this sequence number; None: the newest.
            limit: how many at most, unless followed.
            follow: continue forever with new events.
        """
        while True:
            found = self._ask("list_events", after, limit)
            for answer in found:
                after = answer["sequence"]
                yield Logged(after, _event(answer))
            if not follow:
                return
            if not found:
                time.sleep(POLL)

    def find_events(
        self,
        after: tuple[int, Event] | None = None,
        limit: int = 100,
        **which: Unpack[EventOptions],
    ) -> FoundEvents:
        """Return events of the last 90 days with their numbers, the latest first.

        Args:
            after: the last one of those before.
            limit: how many at most.
            which: the events; by default all.
        """
        events: list[tuple[int, Event]] = []
        missing = ""
        while (room := min(PAGE, limit - len(events))) > 0:
            position = None if after is None else list(position_of(after))
            found = self._ask("find_events", dict(which), position, room)
            events += [(each["sequence"], _event(each)) for each in found["items"]]
            missing = missing or found["missing"]
            if len(found["items"]) < room:
                break
            after = events[-1]
        return FoundEvents(events, missing)

    def failures(
        self, offset: int = 0, limit: int = 100, **which: Unpack[FailureOptions]
    ) -> list[FailureKind]:
        """Return kinds of failures in all projects, those of most tasks first.

        Args:
            offset: how many to skip.
            limit: how many at most, up to 1,000.
            which: the failures; by default all.
        """
        found = self._ask("list_failures", dict(which), offset, limit)
        return [FailureKind(**each) for each in found["items"]]

    def failed_tasks(
        self, after: FailedTask | None = None, limit: int = 100, **which: Unpack[FailureOptions]
    ) -> list[FailedTask]:
        """Return tasks that fail, the latest first.

        Args:
            after: the last one of those before.
            limit: how many at most, up to 1,000.
            which: the failures; by default all.
        """
        position = None if after is None else list(after.position)
        found = self._ask("list_failed_tasks", dict(which), position, limit)
        return [FailedTask(**each) for each in found]

    def tasks(self, **which: Unpack[TaskOptions]) -> Iterator[FoundTask]:
        """Yield tasks as they are found; rows are read until the last one, or nobody asks.

        Args:
            which: the tasks; by default all.
        """
        cursor = ""
        while True:
            look = self._ask("search_tasks", dict(which), cursor)
            yield from (FoundTask(**each) for each in look["tasks"])
            cursor = look["cursor"]
            if not cursor:
                return

    def task(self, project: str, taskid: str) -> dict[str, Any]:
        """Return all that is known of a task: its last try, its next one, and what is stored.

        Raises:
            NotFound: there is none.
        """
        found: dict[str, Any] = self._ask("get_task", project, taskid)
        return found

    # --- internals ---

    def _ask(self, method: str, *args: Any) -> Any:
        return self._ask_one_of(self._schedulers(), method, *args)

    def _schedulers(self) -> Mapping[MemberId, Member]:
        members = self._looked_up(self._directory.members)
        if not members:
            raise Unavailable(f"no scheduler runs at {self._where}: start one")
        return members

    def _ask_one_of(self, members: Mapping[MemberId, Member], method: str, *args: Any) -> Any:
        """Call the scheduler that answered last, and the next one if it does not answer."""
        failed = ""
        for me in sorted(members, key=lambda each: (each != self._answered, each)):
            try:
                answer = self._call(members[me], method, *args)
            except (OSError, Unavailable) as error:
                failed = f": {error}"
            else:
                self._answered = me
                return answer
        raise Unavailable(f"none of {len(members)} schedulers at {self._where} answers{failed}")

    def _looked_up(self, look: Callable[[], T]) -> T:
        """Return what ZooKeeper tells; nothing is ours there that ends with a session."""
        try:
            return look()
        except SessionLost as error:
            raise Unavailable(str(error)) from error

    def _call(self, member: Member, method: str, *args: Any) -> Any:
        try:
            return call(member, method, *args, credentials=self._credentials, timeout=self._timeout)
        except Fault as fault:
            kind = _ERRORS.get(fault.faultCode, ClusterError)
            raise kind(fault.faultString) from None


def _settings(addresses: str) -> Settings:
    environ = {name: os.environ[name] for name in SECRET_VARIABLES if name in os.environ}
    return settings_from(environ=environ, hosts=addresses)


def _selection(which: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selection's plain form.

    Raises:
        BadRequest: a list of names is given, with none: schedulers would take it for no condition.
    """
    names = which.get("names", ())
    names = [names] if isinstance(names, str) else list(names)
    if "names" in which and not names:
        raise BadRequest("the list of names is empty: name projects, or leave it out")
    return {**which, "names": names}


def _event(answer: Mapping[str, Any]) -> Event:
    return Event(**{item.name: answer[item.name] for item in fields(Event)})


def _rest(batch: BatchStatus, until: float | None) -> None:
    """Wait before the next request.

    Raises:
        TimedOut: it would be too late.
    """
    left = POLL if until is None else until - time.monotonic()
    if left <= 0:
        raise TimedOut(f"batch {batch.id} is at work: {batch.remaining} of its projects remain")
    time.sleep(min(POLL, left))
