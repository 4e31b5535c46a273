"""Usual messages, recognized in C: `check_task` and `check_pack` look at each value in Python.

Nearly all messages are usual: known keys, numbers of 64 bits, parts of few levels. Of all others
nothing is known here; those checks decide. Pure.
"""

from collections.abc import Sequence, Set
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import NUMBER_LIMIT, TASKID_LIMIT, URL_LIMIT

_Whole = Annotated[int, Meta(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT - 1)]
_Real = Annotated[float, Meta(ge=-float(NUMBER_LIMIT), le=float(NUMBER_LIMIT))]  # so no NaN
_Number = _Whole | _Real | None
_Plain = str | bool | _Whole | _Real | None
_Part = dict[str, _Plain | dict[str, _Plain]]


class UsualSchedule(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The schedule of a usual task; what is missing is None, as it is for pyspider's rules."""

    priority: _Number = None
    retries: _Number = None
    retried: _Number = None
    exetime: _Number = None
    age: _Number = None
    itag: _Plain = None
    force_update: _Plain = None
    auto_recrawl: _Plain = None
    cancel: _Plain = None


_NO_SCHEDULE = UsualSchedule()


class UsualTask(Struct, forbid_unknown_fields=True, gc=False):
    """What a usual task says, for whoever only decides whether to ignore it.

    Neither the order of its keys nor which of a schedule's are missing is known here: a task that
    is stored or sent on comes from `UsualMessage.decoded`.
    """

    taskid: Annotated[str, Meta(min_length=1, max_length=TASKID_LIMIT)]
    project: Annotated[str, Meta(max_length=PROJECT_NAME_LIMIT)]
    url: Annotated[str, Meta(min_length=1, max_length=URL_LIMIT)]
    schedule: UsualSchedule = _NO_SCHEDULE
    fetch: _Part | UnsetType = UNSET
    process: _Part | UnsetType = UNSET


class _Report(Struct, forbid_unknown_fields=True, gc=False):
    """What a fetcher or a processor of pyspider's reports of one try."""

    ok: _Plain
    time: _Whole | _Real
    redirect_url: _Plain = None
    error: _Plain = None
    status_code: _Plain = None
    encoding: _Plain = None
    headers: dict[str, _Plain] = {}
    content: _Plain = None
    follows: _Plain = None
    result: _Plain = None
    logs: _Plain = None
    exception: _Plain = None


class _Track(Struct, forbid_unknown_fields=True, gc=False):
    fetch: _Report
    process: _Report
    save: _Plain | _Part = None


class _Pack(UsualTask, kw_only=True, gc=False):
    track: _Track


_PROJECT = attrgetter("project")

_decode = msgspec.msgpack.Decoder().decode
_split = msgspec.msgpack.Decoder(list[Raw]).decode
_RECOGNIZERS = {
    QueueKind.NEWTASK: msgspec.msgpack.Decoder(list[UsualTask] | UsualTask).decode,
    QueueKind.STATUS: msgspec.msgpack.Decoder(_Pack).decode,
}


class UsualMessage:
    """A message of which all is usual. It is decoded as far as it is asked for.

    Each of its tasks passes `check_task`, and a status pack `check_pack` as well. Threads: one.

    Attributes:
        tasks: its tasks, at least one; or the one status pack.
        projects: of these tasks.
    """

    def __init__(self, raw: bytes, found: UsualTask | Sequence[UsualTask]) -> None:
        self._raw = raw
        self._is_list = not isinstance(found, UsualTask)
        self._body: Any = None
        self._parts: Sequence[bytes | Raw] = ()
        self.tasks: Sequence[UsualTask] = [found] if isinstance(found, UsualTask) else found
        self.projects: Set[str] = set(map(_PROJECT, self.tasks))

    @property
    def body(self) -> Any:
        """What was published: a list of tasks, a task or a pack; always the same object."""
        if self._body is None:
            self._body = _decode(self._raw)
        return self._body

    def decoded(self, number: int) -> dict[str, Any]:
        """Return one of its tasks as it was published, in a new mapping.

        Args:
            number: its index in ``tasks``.
        """
        if not self._parts:
            self._parts = _split(self._raw) if self._is_list else [self._raw]
        task: dict[str, Any] = _decode(self._parts[number])
        return task


def usual_message(kind: QueueKind, raw: bytes) -> UsualMessage | None:
    """Return a message of these bytes if all of it is usual."""
    try:
        message = UsualMessage(raw, _RECOGNIZERS[kind](raw))
    except (ValueError, RecursionError):
        return None
    is_usual = message.tasks and all(map(_is_named, message.projects)) and _is_storable(message)
    return message if is_usual else None


def _is_storable(message: UsualMessage) -> bool:
    for task in message.tasks:  # noqa: SIM110 - a loop is quicker than `all`
        if "\0" in task.taskid or "\0" in task.url:
            return False
    return True


@lru_cache(maxsize=10_000)
def _is_named(project: str) -> bool:
    return is_project_name(project)
