"""Validation of messages in C: `check_task` and `check_pack` look at each value in Python.

Nearly all messages are found valid here: known keys, numbers of 64 bits, parts of few levels. Of
all others nothing is known; those checks decide. Pure.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import NUMBER_LIMIT, NUMBERS, TASKID_LIMIT, URL_LIMIT

_Whole = Annotated[int, Meta(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT - 1)]
_Real = Annotated[float, Meta(ge=-float(NUMBER_LIMIT), le=float(NUMBER_LIMIT))]  # so no NaN
_Plain = str | bool | _Whole | _Real | None
_Part = dict[str, _Plain | dict[str, _Plain]]
_TaskId = Annotated[str, Meta(min_length=1, max_length=TASKID_LIMIT)]
_ProjectName = Annotated[str, Meta(max_length=PROJECT_NAME_LIMIT)]
_Url = Annotated[str, Meta(min_length=1, max_length=URL_LIMIT)]


class _Task(Struct, forbid_unknown_fields=True, gc=False):
    """A new task."""

    taskid: _TaskId
    project: _ProjectName
    url: _Url
    schedule: dict[str, _Plain] | UnsetType = UNSET
    fetch: _Part | UnsetType = UNSET
    process: _Part | UnsetType = UNSET


class _Pack(_Task, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A status pack."""

    track: dict[str, _Plain | _Part]


_DECODERS = {
    QueueKind.NEWTASK: msgspec.msgpack.Decoder(_Task).decode,
    QueueKind.STATUS: msgspec.msgpack.Decoder(_Pack).decode,
}

_NUMBER_TYPES = frozenset((int, float))


def is_valid(kind: QueueKind, raw: bytes) -> bool:
    """Return whether a message surely passes its checks; False means nothing."""
    try:
        message = _DECODERS[kind](raw)
    except (ValueError, RecursionError):  # msgspec's are ValueErrors
        return False
    return (
        _is_named(message.project)
        and "\0" not in message.taskid
        and "\0" not in message.url
        and (message.schedule is UNSET or _is_comparable(message.schedule))
        and (kind is QueueKind.NEWTASK or _is_report(message.track))  # type: ignore[attr-defined]
    )


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
    return schedule.keys().isdisjoint(NUMBERS) or not any(
        type(schedule.get(key)) is str for key in NUMBERS
    )


@lru_cache(maxsize=10_000)
def _is_named(project: str) -> bool:
    return is_project_name(project)
