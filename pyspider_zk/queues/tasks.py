"""Tasks: the fields that the cluster depends on, and checks of them. Pure."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, check_project_name, is_project_name
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.tasks.columns import COLUMNS
from pyspider_zk.tasks.documents import DOCUMENTS

REQUIRED = ("taskid", "project", "url")

NUMBERS = ("priority", "retries", "retried", "exetime", "age")
"""The parts of a schedule that pyspider compares. A value of another type would fail every round of
the project's owner as long as it is in a queue."""

DISPATCHED = ("type", "group", "project_md5sum", "project_updatetime")
"""Keys that the scheduler adds for fetcher and processor; databases do not store them."""

TASKID_LIMIT = 255  # characters
URL_LIMIT = 2**20  # characters; a data: URL may carry something
DEEPEST = 200  # levels of a part; far below the limits of JSON, XML and msgpack
NUMBER_LIMIT = 2**63  # the range of a database's integers
QUOTED = 80  # characters of an error message's quotation

NESTING = frozenset((dict, list, tuple))
"""The types that nest values, of what decoders return."""

_KNOWN = frozenset((*COLUMNS, *DISPATCHED))
_NUMBER_COLUMNS = ("status", "lastcrawltime", "updatetime")
_NUMERIC = (int, float)
_ON_GET_INFO = "_on_get_info"


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


def check_task(task: object) -> None:
    """Check that a message is a task that every database accepts.

    Raises:
        BadMessage: naming what is wrong.
    """
    if not isinstance(task, dict):
        raise BadMessage(f"a task must be a mapping, this is a {type(task).__name__}")
    if not task.keys() <= _KNOWN:
        strange = next(key for key in task if key not in _KNOWN)
        raise BadMessage(f"a task has no {_short(strange)}; known are {', '.join(COLUMNS)}")
    if not (task.get("taskid") and task.get("project") and task.get("url")):
        missing = [key for key in REQUIRED if not task.get(key)]
        raise BadMessage(f"a task needs {', '.join(missing)}")
    check_project_name(task["project"])
    if not is_whole(task["taskid"]):
        _check_text("taskid", task["taskid"], TASKID_LIMIT)
    _check_text("url", task["url"], URL_LIMIT)
    if not task.keys().isdisjoint(_NUMBER_COLUMNS):
        _check_numbers(task)
    for part in DOCUMENTS:
        if part in task:
            _check_part(part, task[part])
    if task.get("schedule"):
        _check_schedule(task["schedule"])


def check_pack(pack: Mapping[str, Any]) -> None:
    """Check that a task is a status pack: that it says how a try ended.

    Raises:
        BadMessage: naming what is wrong.
    """
    if pack["taskid"] == _ON_GET_INFO:
        return
    track = pack.get("track") or {}
    for part in ("fetch", "process"):
        report = track.get(part)
        if not isinstance(report, dict):
            raise BadMessage(f"track: {part} must be a mapping, not {_short(report)}")
        if not isinstance(report.get("time"), int | float | None) or _is_nan(report.get("time")):
            raise BadMessage(f"track: {part} time must be a number, not {_short(report['time'])}")
    if "ok" not in track["process"]:
        raise BadMessage("track: process needs ok")


def is_valid(kind: QueueKind, raw: bytes) -> bool:
    """Return whether a message surely passes its checks; False means nothing.

    `check_task` and `check_pack` look at each value in Python, this does in C. Nearly all messages
    are found valid here: known keys, numbers of 64 bits, parts of few levels.
    """
    try:
        message = _DECODERS[kind](raw)
    except (ValueError, RecursionError):  # msgspec's are ValueErrors
        return False
    return (
        _is_named(message.project)
        and "\0" not in message.taskid
        and "\0" not in message.url
        and (message.schedule is UNSET or _has_numbers(message.schedule))
        and (kind is QueueKind.NEWTASK or _is_report(message.track))  # type: ignore[attr-defined]
    )


def _is_report(track: Mapping[str, Any]) -> bool:
    """Return whether fetcher and processor report of a try as pyspider's do."""
    fetch, process = track.get("fetch"), track.get("process")
    return (
        type(fetch) is dict
        and type(process) is dict
        and "ok" in process
        and type(fetch.get("time")) in _NUMERIC
        and type(process.get("time")) in _NUMERIC
    )


def _has_numbers(schedule: Mapping[str, Any]) -> bool:
    """Return whether a schedule has no texts where pyspider compares numbers."""
    return not any(type(value) is str and key in NUMBERS for key, value in schedule.items())


@lru_cache(maxsize=10_000)
def _is_named(project: str) -> bool:
    return is_project_name(project)


def with_url(pack: Any) -> Any:
    """Return a message; add the URL that a script's information may lack."""
    if isinstance(pack, dict) and pack.get("taskid") == _ON_GET_INFO and not pack.get("url"):
        return {**pack, "url": f"data:,{_ON_GET_INFO}"}
    return pack


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and mappings are nested deeper than that."""
    within = [value] if type(value) in NESTING else []
    for _ in range(levels + 1):
        if not within:
            return False
        within = [
            each
            for one in within
            for each in (one.values() if type(one) is dict else one)
            if type(each) in NESTING
        ]
    return bool(within)


def is_whole(value: object, *, or_none: bool = False) -> bool:
    """Return whether a value is a whole number that a database's integers can hold."""
    if value is None:
        return or_none
    known = isinstance(value, int) and not isinstance(value, bool)
    return known and -NUMBER_LIMIT <= value < NUMBER_LIMIT  # type: ignore[operator]


def is_comparable(value: object) -> bool:
    """Return whether tasks can be ordered by a value: infinity has a place, NaN has none."""
    return isinstance(value, int | float) and not _is_nan(value)


def _check_text(key: str, value: object, limit: int) -> None:
    if type(value) is str and value.isascii() and len(value) <= limit and "\0" not in value:
        return
    if not isinstance(value, str):
        raise BadMessage(f"{key} must be text, not {_short(value)}")
    if len(value) > limit:
        raise BadMessage(f"{key} has {len(value)} characters, the limit is {limit}")
    if "\0" in value:
        raise BadMessage(f"{key} holds a NUL, which not every database takes: {_short(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{key} holds half of a character: {_short(value)}") from None


def _check_numbers(task: Mapping[str, Any]) -> None:
    if not is_whole(task.get("status"), or_none=True):
        raise BadMessage(f"status must be a whole number, not {_short(task['status'])}")
    for key in ("lastcrawltime", "updatetime"):
        value = task.get(key)
        if value is None:
            continue
        if _is_nan(value) or not (isinstance(value, float) or is_whole(value)):
            raise BadMessage(f"{key} must be a number, not {_short(value)}")


def _check_part(part: str, value: object) -> None:
    if not isinstance(value, dict):
        raise BadMessage(f"{part} must be a mapping, not {_short(value)}")
    if is_deeper(value, DEEPEST):
        raise BadMessage(f"{part} is nested deeper than {DEEPEST} levels")
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise BadMessage(f"{part} cannot be stored: {_cut(str(error))}") from None


def _check_schedule(schedule: Mapping[str, Any]) -> None:
    if schedule.keys().isdisjoint(NUMBERS):
        return
    for key in NUMBERS:
        value = schedule.get(key)
        if value is None or type(value) is int:
            continue
        endless = key in ("retries", "retried") and value in (float("inf"), float("-inf"))
        if not is_comparable(value) or endless:
            raise BadMessage(f"schedule: {key} must be a number, not {_short(value)}")


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value  # only NaN is not itself


def _short(value: object) -> str:
    """Return a short form of a value for a message; it may be huge, or nested too deeply."""
    if isinstance(value, str | bytes):
        return _cut(repr(value[:QUOTED]))
    if isinstance(value, dict | list | tuple) and (len(value) > 5 or is_deeper(value, 5)):
        return f"a {type(value).__name__}"
    return _cut(repr(value))


def _cut(text: str) -> str:
    return f"{text:.{QUOTED}}"


def own_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that may be changed and stored, with a comparable schedule.

    pyspider modifies the tasks that it applies. A message that must be applied again, because its
    first try failed in the middle, must not have been changed by that.
    """
    own = {**task}
    if not own.keys().isdisjoint(DISPATCHED):
        own = {key: value for key, value in task.items() if key not in DISPATCHED}
    if "schedule" in own:
        own["schedule"] = usable_schedule(own["schedule"])
    return own


def usable_schedule(schedule: object) -> dict[str, Any]:
    """Return the comparable parts of a schedule; the others get pyspider's defaults."""
    if not isinstance(schedule, dict):
        return {}
    return {
        key: value
        for key, value in schedule.items()
        if key not in NUMBERS or isinstance(value, _NUMERIC)
    }


def usable_info(info: object) -> tuple[dict[str, Any], list[str]]:
    """Return the usable information of a script, and descriptions of the rest."""
    given = info if isinstance(info, Mapping) else {}
    given = {key: value for key, value in given.items() if value is not None}
    good = {key: value for key, value in given.items() if _is_usable(key, value)}
    return good, [f"{key} {value!r}" for key, value in given.items() if key not in good]


def _is_usable(key: str, value: object) -> bool:
    if key == "min_tick":
        return isinstance(value, int | float) and 0 <= value < float("inf")
    if key == "retry_delay" and isinstance(value, dict):
        return all(isinstance(each, int | float) and not _is_nan(each) for each in value.values())
    return isinstance(value, dict) or key not in ("retry_delay", "crawl_config")
