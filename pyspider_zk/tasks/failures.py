"""Failures: what went wrong last with each task that fails, and the kinds that they are grouped by.

They stand in a table of their own in the task database, and change in the transaction of the tasks'
rows: those of all projects can be grouped without reading any of their tasks. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

KIND_LENGTH, CALLBACK_LENGTH, TEXT_LENGTH = 200, 100, 1000
"""Characters that are kept."""

HIGHEST_STATUS_CODE = 999

MOST_DIGITS = 18
"""Of an id that may be a number: sqlite takes none beyond 64 bits."""

_VARYING = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s'\")>\]]+", re.IGNORECASE), "URL"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "#"),
    (re.compile(r"\b(?=[a-f-]{0,64}[0-9])[0-9a-f]{8}[0-9a-f-]{0,64}\b", re.IGNORECASE), "#"),
    (re.compile(r"(?<!HTTP )(?<![0-9])[0-9]+(?:[.,:/T-][0-9]+)*"), "#"),
)
"""What differs between two errors of one kind, and what stands for it."""


class FailedTry(NamedTuple):
    """What went wrong with one try of a task.

    Attributes:
        url: of the task.
        kind: the error without what varies, such as numbers and addresses.
        callback: the method of the script that got the page, or was to; empty: not known.
        status_code: of the answer; 0: there was none.
        error: as it was.
        is_given_up: there is no further try.
        at: when, in seconds since the epoch.
    """

    url: str
    kind: str
    callback: str
    status_code: int
    error: str
    is_given_up: bool
    at: float


class FailureKind(NamedTuple):
    """Failures of one kind, callback and status code, counted.

    Attributes:
        tasks: how many tasks fail so.
        given_up: of these, how many have no further try.
        projects: how many projects they are of.
        first_at: when the first of these tasks began to fail, in seconds since the epoch.
        last_at: when one of them failed last.
    """

    kind: str
    callback: str
    status_code: int
    tasks: int
    given_up: int
    projects: int
    first_at: float
    last_at: float


class FailedTask(NamedTuple):
    """One task that fails.

    Attributes:
        error: of its last try.
        first_at: since when it fails, in seconds since the epoch.
        last_at: when it failed last.
    """

    project: str
    taskid: str
    url: str
    kind: str
    callback: str
    status_code: int
    error: str
    is_given_up: bool
    first_at: float
    last_at: float

    @property
    def position(self) -> "Position":
        """Where it stands among all, the latest first."""
        return self.last_at, self.project, self.taskid


Position = tuple[float, str, str]
"""A time, a project and a task id."""


def failure_of(task: Mapping[str, Any], *, is_given_up: bool) -> FailedTry:
    """Return what the status pack of a try that failed says; its ``lastcrawltime`` is set."""
    processed, fetched = task["track"]["process"], task["track"]["fetch"]
    return FailedTry(
        _text(task["url"], TEXT_LENGTH),
        failure_kind(processed, fetched),
        _text(processed.get("callback"), CALLBACK_LENGTH),
        status_code_of(fetched),
        error_of(processed, fetched),
        is_given_up,
        task["lastcrawltime"],
    )


def status_code_of(fetched: Mapping[str, Any]) -> int:
    """Return the code of an answer; 0: there was none."""
    code = fetched.get("status_code")
    return code if type(code) is int and 0 <= code <= HIGHEST_STATUS_CODE else 0


def spellings(taskid: Any) -> Sequence[Any]:
    """Return the ids that a row may have whose failure, or whoever asks, has this one.

    A script may take a number for it, which is text in the table of failures and in commands.
    """
    number = isinstance(taskid, str) and taskid.removeprefix("-").isdecimal()
    if number and len(taskid) <= MOST_DIGITS and str(int(taskid)) == taskid:
        return (taskid, int(taskid))
    return (taskid,)


def failure_kind(processed: Mapping[str, Any], fetched: Mapping[str, Any]) -> str:
    """Return an error without what varies: numbers, times, ids, addresses in memory and the web."""
    kind = error_of(processed, fetched)
    for varying, name in _VARYING:
        kind = varying.sub(name, kind)
    return kind[:KIND_LENGTH]


def why_not(track: Mapping[str, Any]) -> str:
    """Return why a script failed, empty if it did not; anything may stand in what it tells."""
    processed, fetched = track.get("process"), track.get("fetch")
    if not isinstance(processed, Mapping) or processed.get("ok", True):
        return ""
    return error_of(processed, fetched if isinstance(fetched, Mapping) else {})


def error_of(processed: Mapping[str, Any], fetched: Mapping[str, Any]) -> str:
    """Return the first line of an error, with its class if the traceback tells that."""
    said = _first_line(processed.get("exception")) or _first_line(fetched.get("error"))
    logs = processed.get("logs")
    for line in reversed(logs.splitlines() if isinstance(logs, str) else []):
        found = re.match(r"\s*([A-Za-z_][\w.]*)(?:: (.*))?$", line)
        rest = (found[2] or "").strip() if found else None
        if found and (said == rest or (rest and said.startswith(f"{rest} ("))):
            name = found[1].rpartition(".")[2]
            return _text(f"{name}: {said}" if said else name, TEXT_LENGTH)
    return _text(said or "no reason was given", TEXT_LENGTH)


def _first_line(text: object) -> str:
    lines = str(text).strip().splitlines() if text else []
    return lines[0].strip() if lines else ""


def _text(value: object, length: int) -> str:
    """Return text that every database takes: scripts and pages may have written it."""
    text = value if isinstance(value, str) else ""
    return "".join(each if each.isprintable() else " " for each in text[:length])
