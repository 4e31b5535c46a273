"""What a task is, as far as the cluster must know."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspider_zk.core.names import check_project_name
from pyspider_zk.errors import BadMessage

REQUIRED = ("taskid", "project", "url")

NUMBERS = ("priority", "retries", "retried", "exetime", "age")
"""The parts of a schedule that pyspider compares. One of another type fails every round of its
project's owner, as long as it is in a queue, whoever owns it."""


def check_task(task: object) -> None:
    """Make sure that a message is a task.

    Raises:
        BadMessage: naming what is wrong.
    """
    if not isinstance(task, dict):
        raise BadMessage(f"a task must be a mapping, this is a {type(task).__name__}")
    missing = [key for key in REQUIRED if not task.get(key)]
    if missing:
        raise BadMessage(f"a task needs {', '.join(missing)}")
    check_project_name(task["project"])
    _check_schedule(task.get("schedule", {}))


def _check_schedule(schedule: object) -> None:
    if not isinstance(schedule, dict):
        raise BadMessage(f"schedule must be a mapping, not {schedule!r}")
    for key in NUMBERS:
        if not isinstance(schedule.get(key), int | float | None):
            raise BadMessage(f"schedule: {key} must be a number, not {schedule[key]!r}")


def own_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that may be changed, with a schedule that may be compared.

    pyspider writes into the tasks that it applies. A message that must be applied again, for its
    first try failed in the middle, must not have been changed by that.
    """
    if "schedule" not in task:
        return dict(task)
    return {**task, "schedule": usable_schedule(task["schedule"])}


def usable_schedule(schedule: object) -> dict[str, Any]:
    """Return what of a schedule can be compared; what is left out has pyspider's default."""
    if not isinstance(schedule, Mapping):
        return {}
    return {
        key: value
        for key, value in schedule.items()
        if key not in NUMBERS or isinstance(value, int | float)
    }


def usable_info(info: object) -> tuple[dict[str, Any], list[str]]:
    """Return what a script tells of itself, and what of it is of no use, in words."""
    told = info if isinstance(info, Mapping) else {}
    told = {key: value for key, value in told.items() if value is not None}
    good = {key: value for key, value in told.items() if _is_usable(key, value)}
    return good, [f"{key} {value!r}" for key, value in told.items() if key not in good]


def _is_usable(key: str, value: object) -> bool:
    if key == "min_tick":
        return isinstance(value, int | float) and 0 <= value < float("inf")
    return isinstance(value, dict) or key not in ("retry_delay", "crawl_config")


def sort_out(
    tasks: Iterable[Any], check: Callable[[object], None] = check_task
) -> tuple[list[Any], str]:
    """Return those that are tasks, and what is wrong with the first that is none."""
    good, fault = [], ""
    for task in tasks:
        try:
            check(task)
            good.append(task)
        except BadMessage as error:
            fault = fault or str(error)
    return good, fault
