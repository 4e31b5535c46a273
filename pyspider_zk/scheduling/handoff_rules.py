"""Rules for the entries of a handoff: a slot record may hold anything.

Each rule takes an entry and the project's name, and returns whether the entry can be used.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.rows import is_number
from pyspider_zk.queues.tasks import check_task, usable_info

_SERIES = ("times", "values", "events")


def _text(value: object, _: str) -> bool:
    return isinstance(value, str | None)


def _second(value: object, _: str) -> bool:
    return value is None or (isinstance(value, int) and is_number(value))


def _processing(value: object, _: str) -> bool:
    return isinstance(value, list) and all(
        _is_row(row, 3) and isinstance(row[0], str) and is_number(row[1]) and is_number(row[2])
        for row in value
    )


def _tasks(value: object, project: str) -> bool:
    return isinstance(value, list) and all(_is_task(task, project) for task in value)


def _numbers(value: object, _: str) -> bool:
    return _is_row(value, 2) and all(map(is_number, value))  # type: ignore[call-overload]


def _paused(value: Any, _: str) -> bool:
    return _is_row(value, 3) and (
        value[0] in (True, False, "checking")
        and is_number(value[1])
        and (value[2] is None or (isinstance(value[2], int) and value[2] >= 0))
    )


def _finishing(value: Any, _: str) -> bool:
    return _is_row(value, 2) and isinstance(value[0], bool) and isinstance(value[1], int)


def _active_tasks(value: object, _: str) -> bool:
    return isinstance(value, list) and all(
        _is_row(entry, 2) and is_number(entry[0]) and _is_log_entry(entry[1]) for entry in value
    )


def _info(value: object, _: str) -> bool:
    return isinstance(value, dict) and not usable_info(value)[1]


def _counters(value: object, _: str) -> bool:
    return isinstance(value, dict) and all(
        isinstance(window, dict) and all(map(_is_counter, window.values()))
        for window in value.values()
    )


Rule = Callable[[Any, str], bool]

STATE: Mapping[str, Rule] = {
    "processing": _processing,
    "unsent": _tasks,
    "postponed": _tasks,
    "bucket": _numbers,
    "paused": _paused,
    "finishing": _finishing,
    "active_tasks": _active_tasks,
}
"""Entries that only a clean record passes on, all or none of them."""

KNOWLEDGE: Mapping[str, Rule] = {
    "md5sum": _text,
    "info": _info,
    "counters": _counters,
    "tick": _second,
}
"""Entries that mislead nobody even if they are out of date."""


def _is_row(value: object, length: int) -> bool:
    return isinstance(value, list | tuple) and len(value) == length


def _is_task(task: Any, project: str) -> bool:
    """Return whether it is a task of the project; a tick must contain its time."""
    try:
        check_task(task)
    except BadMessage:
        return False
    if task["project"] != project or not isinstance(task["taskid"], str):
        return False
    return task["taskid"] != "_on_cronjob" or _second(_at(task, "fetch", "save", "tick"), project)


def _is_log_entry(task: object) -> bool:
    """Return whether pyspider can decide from it whether to pause."""
    if not isinstance(task, dict):
        return False
    return task.get("type") == 1 or "ok" in (_at(task, "track", "process") or ())


def _is_counter(events: object) -> bool:
    """Return whether it is a counter's state; its series are cut together, so equally long."""
    if not isinstance(events, dict):
        return False
    series = [events[name] for name in _SERIES if name in events]
    scalars = [value for name, value in events.items() if name not in _SERIES]
    return (
        all(isinstance(each, list) and all(map(is_number, each)) for each in series)
        and len({len(each) for each in series}) < 2
        and all(value is None or is_number(value) for value in scalars)
    )


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
