"""Usual messages, recognized in C: `check_task` and `check_pack` look at each value in Python.

Nearly all messages are usual: texts in ASCII, numbers of 64 bits, parts of few levels. Of all
others nothing is known here; those checks decide. Pure.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import NUMBER_LIMIT, TASKID_LIMIT, URL_LIMIT

_Whole = Annotated[int, Meta(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT - 1)]
_Real = Annotated[float, Meta(ge=-float(NUMBER_LIMIT), le=float(NUMBER_LIMIT))]  # so no NaN
_Number = _Whole | _Real | None
_Plain = str | bool | _Whole | _Real | None
_Part = dict[str, _Plain | dict[str, _Plain]]


class _Schedule(Struct, forbid_unknown_fields=True, gc=False):
    priority: _Number = None
    retries: _Number = None
    retried: _Number = None
    exetime: _Number = None
    age: _Number = None
    itag: _Plain = None
    force_update: _Plain = None
    auto_recrawl: _Plain = None
    cancel: _Plain = None


class _Task(Struct, forbid_unknown_fields=True, gc=False):
    taskid: Annotated[str, Meta(min_length=1, max_length=TASKID_LIMIT)]
    project: Annotated[str, Meta(max_length=PROJECT_NAME_LIMIT)]
    url: Annotated[str, Meta(min_length=1, max_length=URL_LIMIT)]
    schedule: _Schedule | UnsetType = UNSET
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


class _Pack(_Task, kw_only=True, gc=False):
    track: _Track


def usual_projects(kind: QueueKind, body: object) -> Collection[str]:
    """Return the projects of a message if all of it is usual, else none.

    Each task of a usual message passes `check_task`, and its status pack `check_pack` as well.
    """
    try:
        found = _converted(kind, body)
    except (msgspec.ValidationError, RecursionError, UnicodeError):
        return ()
    projects = {task.project for task in found}
    return projects if all(map(_is_named, projects)) and all(map(_is_text, found)) else ()


def _converted(kind: QueueKind, body: object) -> Sequence[_Task]:
    if kind is QueueKind.STATUS:
        return [msgspec.convert(body, _Pack)]
    return (
        msgspec.convert(body, list[_Task]) if type(body) is list else [msgspec.convert(body, _Task)]
    )


def _is_text(task: _Task) -> bool:
    taskid, url = task.taskid, task.url
    return taskid.isascii() and url.isascii() and "\0" not in taskid and "\0" not in url


@lru_cache(maxsize=10_000)
def _is_named(project: str) -> bool:
    return is_project_name(project)
