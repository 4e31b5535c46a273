"""Operations on projects, the arguments of each, and their form in batches and jobs.

To the job queue itself work, notes and progress are opaque.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from pyspider_zk.errors import CUT, BadMessage, BadRequest
from pyspider_zk.projects.rows import STATUSES, is_number, is_text, split_group
from pyspider_zk.queues.tasks import TASKID_LIMIT, is_whole
from pyspider_zk.tasks.failures import HIGHEST_STATUS_CODE
from pyspider_zk.zookeeper.codec import checked, plain

GROUP_LIMIT = 1000  # characters of all groups of a project
PROJECTS_LIMIT = 10_000
"""Projects that a job may name; the cluster's own jobs name fewer."""

TASKS_LIMIT = 1000
"""Task ids of a request: each of its jobs holds them all."""

TEXT_LIMIT = 1000  # characters by which tasks are chosen
REASONS_LIMIT = 128 * 1024  # bytes of all reasons that a job's znode holds

TASK_STATES = ("FAILED", "SUCCESS", "BAD")
"""The states of tasks that have ended."""


class Operation(StrEnum):
    """Operation that a job does on each of its projects."""

    START = "start"
    RUN = "run"
    STOP = "stop"
    RESTART = "restart"
    DELETE = "delete"
    RATE = "rate"
    GROUP = "group"
    STATUS = "status"
    REFETCH = "refetch"


STARTING = (Operation.START, Operation.RUN, Operation.RESTART)
"""The operations that dispatch ``on_start``."""


@dataclass(frozen=True)
class Work:
    """Work of a job, as recorded in it; anybody may have written it.

    Attributes:
        operation: one of ``Operation``, or of a newer version.
        arguments: the operation's.
        projects: the job's; all of one slot.
    """

    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    projects: Sequence[str] = ()

    @classmethod
    def parse(cls, work: object) -> Self:
        """Parse the form in a job; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: it is not valid.
        """
        parsed = checked(cls, work)
        if len(parsed.projects) > PROJECTS_LIMIT:
            raise BadMessage(f"{len(parsed.projects)} projects are more than {PROJECTS_LIMIT}")
        return parsed


@dataclass(frozen=True)
class Note:
    """Note: the request, as recorded in a batch; anybody may have written it.

    Attributes:
        selection: how the projects were chosen; of many names the first.
        user: who requested it.
        total: how many projects are selected.
        asked: distinguishes this request from others.
    """

    operation: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)
    user: str = ""
    total: int = 0
    asked: str = ""

    @classmethod
    def parse(cls, note: object) -> Self:
        """Parse the form in a batch; anything else gives an empty note."""
        try:
            return checked(cls, note)
        except BadMessage:
            return cls()


@dataclass(frozen=True)
class Progress:
    """Progress of a job: all that its next claimant must know to go on.

    Attributes:
        stage: which stage of its operation it is in.
        at: how many projects this stage has been through.
        later: projects that were put off, with the reason if they failed.
        errors: projects that were given up, with the reason.
        versions: the version of each project's row that the operation began with.
    """

    stage: int = 0
    at: int = 0
    later: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, reported: Mapping[str, Any]) -> Self:
        """Parse the form that ``as_dict`` returns; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: it is not that form; anybody may have written it.
        """
        progress = checked(cls, reported)
        if min(progress.stage, progress.at) < 0:
            raise BadMessage("progress counts from 0 on")
        return progress

    def as_dict(self) -> dict[str, Any]:
        """Return the form for the job's znode.

        If the reasons are too long, they are cut, the longest first; ``CUT`` marks the end of each
        that was cut.
        """
        reasons = [*self.later.values(), *self.errors.values()]
        longest = _longest(reasons, REASONS_LIMIT)
        cut = {
            key: {name: _cut(reason, longest) for name, reason in getattr(self, key).items()}
            for key in ("later", "errors")
        }
        return {**asdict(self), **cut}


def check_operation(name: object) -> Operation:
    """Return the operation of a name; raise ``BadRequest``, which names all, if there is none."""
    try:
        return Operation(name)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(Operation)
        raise BadRequest(f"there is no operation {name!r}; known are {known}") from None


def check_arguments(operation: Operation, arguments: object) -> dict[str, Any]:
    """Return an operation's arguments as plain values, with those that have defaults.

    Raises:
        BadRequest: the message names the argument and what it must be.
    """
    if not isinstance(arguments, Mapping):
        raise BadRequest(f"arguments must be an object, not {arguments!r}")
    rules = _ARGUMENTS.get(operation, {})
    strange = [str(name) for name in arguments if name not in rules]
    if strange:
        known = ", ".join(rules) or "none"
        raise BadRequest(f"{operation} has no argument {', '.join(strange)}; known are: {known}")
    values = {
        name: rule(f"{operation}: {name}", arguments.get(name)) for name, rule in rules.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def counted_stage(operation: str, arguments: Mapping[str, Any]) -> int:
    """Return the stage of a job's operation in which its projects are done.

    Projects are marked before they are deleted, in a stage of its own; see
    ``scheduling/operations.py``.
    """
    at_once = operation == Operation.DELETE and not arguments.get("wait")
    return 1 if at_once else 0


def is_locked(group: str | None) -> bool:
    """Return whether changing a project of these groups requires a login."""
    return "lock" in split_group(group)


def within_limits(operation: str, arguments: Any, limits: Mapping[str, float]) -> Any:
    """Return an operation's arguments, none above its limit; unknown ones are unchanged."""
    if operation != Operation.RATE or not isinstance(arguments, Mapping):
        return arguments
    return {name: _at_most(value, limits.get(str(name))) for name, value in arguments.items()}


def with_delete(group: str | None) -> str:
    """Return a project's group with the word that makes pyspider delete it."""
    return group or "" if "delete" in split_group(group) else f"{group or ''} delete".strip()


def _at_most(value: Any, limit: float | None) -> Any:
    if limit is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return min(value, limit)


def _number(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f"{place} must be a number, not {value!r}")
    if not is_number(value) or value < 0:
        raise BadRequest(f"{place} must be 0 or more, and less than 2**63, not {value!r:.80}")
    return value


def _group(place: str, value: object) -> str:
    if not is_text(value):
        raise BadRequest(f"{place} must be text, not {value!r:.80}")
    if len(value) > GROUP_LIMIT:
        raise BadRequest(f"{place} has {len(value)} characters, the limit is {GROUP_LIMIT}")
    return value


def _status(place: str, value: object) -> str:
    if not isinstance(value, str) or value not in STATUSES:
        raise BadRequest(f"{place} must be one of {', '.join(STATUSES)}, not {value!r}")
    return value


def _switch(place: str, value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{place} must be true or false, not {value!r}")
    return bool(value)


def _tasks(place: str, value: object) -> list[str | int] | None:
    if value is None:
        return None
    if not (isinstance(value, list | tuple) and value and all(map(_is_taskid, value))):
        raise BadRequest(f"{place} must be a list of task ids, not {value!r:.80}")
    if len(value) > TASKS_LIMIT:
        raise BadRequest(
            f"{place} has {len(value)} ids, the limit is {TASKS_LIMIT}: choose by state, callback"
            " or error"
        )
    return list(value)


def _is_taskid(value: object) -> bool:
    return is_whole(value) or (is_text(value) and 0 < len(value) <= TASKID_LIMIT)


def _state(place: str, value: object) -> str | None:
    if value is not None and value not in TASK_STATES:
        raise BadRequest(f"{place} must be one of {', '.join(TASK_STATES)}, not {value!r:.80}")
    return value


def _part_of_text(place: str, value: object) -> str | None:
    if value is not None and not (
        is_text(value) and 0 < len(value) <= TEXT_LIMIT and "\0" not in value
    ):
        raise BadRequest(f"{place} must be text of 1 to {TEXT_LIMIT} characters, not {value!r:.80}")
    return value


def _callback(place: str, value: object) -> str | None:
    return "" if value == "" else _part_of_text(place, value)


def _status_code(place: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{place} must be a whole number, not {value!r:.80}")
    if not 0 <= value <= HIGHEST_STATUS_CODE:
        raise BadRequest(f"{place} must be 0 to {HIGHEST_STATUS_CODE}, not {value!r:.80}")
    return value


_Rule = Callable[[str, object], Any]
_ARGUMENTS: Mapping[Operation, Mapping[str, _Rule]] = {
    Operation.DELETE: {"wait": _switch},
    Operation.RATE: {"rate": _number, "burst": _number},
    Operation.GROUP: {"group": _group},
    Operation.STATUS: {"status": _status},
    Operation.REFETCH: {
        "tasks": _tasks,
        "state": _state,
        "callback": _callback,
        "error": _part_of_text,
        "status_code": _status_code,
        "kind": _part_of_text,
        "url": _part_of_text,
    },
}


def _size(text: str) -> int:
    return len(plain(text))


def _longest(reasons: Iterable[str], limit: int) -> int:
    """Return how many bytes each reason may have so that together they stay within a limit."""
    sizes = sorted(map(_size, reasons))
    for place, size in enumerate(sizes):
        share = limit // (len(sizes) - place)
        if size > share:
            return share
        limit -= size
    return max(sizes, default=0)


def _cut(reason: str, size: int) -> str:
    """Return a reason, cut so that its JSON has at most so many bytes."""
    if _size(reason) <= size:
        return reason
    kept = reason[:size]
    while kept and _size(kept + CUT) > size:
        kept = kept[: len(kept) * 3 // 4]
    return kept + CUT
