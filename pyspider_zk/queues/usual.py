"""Usual messages, recognized in C: `check_task` and `check_pack` look at each value in Python.

Nearly all messages are usual: known keys, numbers of 64 bits, parts of few levels. Of all others
nothing is known here; those checks decide. Pure.
"""

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import NUMBER_LIMIT, NUMBERS, TASKID_LIMIT, URL_LIMIT

_Whole = Annotated[int, Meta(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT - 1)]
_Real = Annotated[float, Meta(ge=-float(NUMBER_LIMIT), le=float(NUMBER_LIMIT))]  # so no NaN
_Number = _Whole | _Real | None
_Plain = str | bool | _Whole | _Real | None
_Part = dict[str, _Plain | dict[str, _Plain]]
_TaskId = Annotated[str, Meta(min_length=1, max_length=TASKID_LIMIT)]
_ProjectName = Annotated[str, Meta(max_length=PROJECT_NAME_LIMIT)]
_Url = Annotated[str, Meta(min_length=1, max_length=URL_LIMIT)]


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

    taskid: _TaskId
    project: _ProjectName
    url: _Url
    schedule: UsualSchedule = _NO_SCHEDULE
    fetch: _Part | UnsetType = UNSET
    process: _Part | UnsetType = UNSET


class _Pack(Struct, forbid_unknown_fields=True, gc=False):
    """What a usual status pack says. Its parts are mappings, for nearly all packs are stored."""

    taskid: _TaskId
    project: _ProjectName
    url: _Url
    track: dict[str, _Plain | _Part]
    schedule: dict[str, _Plain] | UnsetType = UNSET
    fetch: _Part | UnsetType = UNSET
    process: _Part | UnsetType = UNSET


_decode = msgspec.msgpack.Decoder().decode
_split = msgspec.msgpack.Decoder(list[Raw]).decode
_tasks_of = msgspec.msgpack.Decoder(list[UsualTask] | UsualTask).decode
_pack_of = msgspec.msgpack.Decoder(_Pack).decode

_NUMBER_TYPES = frozenset((int, float))


class UsualMessage(Struct, eq=False):
    """A message of which all is usual. New tasks are decoded as far as they are asked for.

    Each of its tasks passes `check_task`, and a status pack `check_pack` as well. Threads: one.

    Attributes:
        tasks: its new tasks; none if it is a status pack.
        projects: of all that it has, at least one.
    """

    tasks: Sequence[UsualTask]
    projects: Set[str]
    _raw: bytes
    _is_list: bool = False
    _body: Any = None
    _parts: Sequence[bytes | Raw] = ()

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
        return _usual_tasks(raw) if kind is QueueKind.NEWTASK else _usual_pack(raw)
    except (ValueError, RecursionError):  # msgspec's are ValueErrors
        return None


def _usual_tasks(raw: bytes) -> UsualMessage | None:
    found = _tasks_of(raw)
    is_list = type(found) is list
    tasks: Sequence[UsualTask] = found if is_list else [found]
    projects = set()
    for task in tasks:
        if "\0" in task.taskid or "\0" in task.url:
            return None
        projects.add(task.project)
    is_usual = projects and all(map(_is_named, projects))
    return UsualMessage(tasks, projects, raw, is_list) if is_usual else None


def _usual_pack(raw: bytes) -> UsualMessage | None:
    pack = _pack_of(raw)
    is_usual = (
        _is_named(pack.project)
        and "\0" not in pack.taskid
        and "\0" not in pack.url
        and _is_report(pack.track)
        and (pack.schedule is UNSET or _is_comparable(pack.schedule))
    )
    return UsualMessage((), {pack.project}, b"", _body=_body_of(pack)) if is_usual else None


def _body_of(pack: _Pack) -> dict[str, Any]:
    """Return what was published; only the order of its keys may be another."""
    body = {"taskid": pack.taskid, "project": pack.project, "url": pack.url, "track": pack.track}
    if pack.schedule is not UNSET:
        body["schedule"] = pack.schedule
    if pack.fetch is not UNSET:
        body["fetch"] = pack.fetch
    if pack.process is not UNSET:
        body["process"] = pack.process
    return body


def _is_report(track: Mapping[str, Any]) -> bool:
    """Return whether fetcher and processor report of a try as pyspider's do."""
    fetch, process = track.get("fetch"), track.get("process")
    return (
        type(fetch) is dict
        and type(process) is dict
        and "ok" in process
        and type(fetch.get("time")) in _NUMBER_TYPES
        and type(process.get("time")) in _NUMBER_TYPES
    )


def _is_comparable(schedule: Mapping[str, Any]) -> bool:
    """Return whether a schedule has no texts where pyspider compares numbers."""
    for key in NUMBERS:  # noqa: SIM110 - a loop is quicker than `all`
        if type(schedule.get(key)) is str:
            return False
    return True


@lru_cache(maxsize=10_000)
def _is_named(project: str) -> bool:
    return is_project_name(project)
