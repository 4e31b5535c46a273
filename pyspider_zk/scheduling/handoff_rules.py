"""Rules for the entries of a handoff: a slot record may hold anything.

Each rule takes an entry and the project's name, and returns whether the entry can be used.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.rows import is_number
from pyspider_zk.queues.tasks import check_task, is_comparable, is_whole, usable_info

_SERIES = ("times", "values", "events")


def _text(value: object, _: str) -> bool:
    return isinstance(value, str | None)


def _second(value: object, _: str) -> bool:
    return value is None or is_whole(value)


def _moment(value: object, _: str) -> bool:
    return value is None or is_number(value)


def _rows(value: object, _: str) -> bool:
    return isinstance(value, list)


def _in_flight(row: Any, _: str) -> bool:
    """Id and priority may be whatever a task's may; the time-out is the scheduler's own."""
    return (
        _is_row(row, 3)
        and (isinstance(row[0], str) or is_whole(row[0]))
        and is_comparable(row[1])
        and is_number(row[2])
    )


def _lasting(row: Any, _: str) -> bool:
    """Id and seconds of a task in flight that may take longer than usual."""
    known = _is_row(row, 2) and (isinstance(row[0], str) or is_whole(row[0]))
    return known and is_number(row[1]) and row[1] > 0


def _task(task: Any, project: str) -> bool:
    """A tick must contain its time."""
    try:
        check_task(task)
    except BadMessage:
        return False
    if task["taskid"] == "_on_cronjob" and not is_whole(_at(task, "fetch", "save", "tick")):
        return False
    return bool(task["project"] == project)


def _active_task(row: Any, _: str) -> bool:
    return _is_row(row, 2) and is_number(row[0]) and _is_log_entry(row[1])


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


def _info(value: object, _: str) -> bool:
    return isinstance(value, dict) and not usable_info(value)[1]


def _counters(value: object, _: str) -> bool:
    return isinstance(value, dict) and all(
        isinstance(window, dict) and all(map(_is_counter, window.values()))
        for window in value.values()
    )


Rule = Callable[[Any, str], bool]

STATE: Mapping[str, Rule] = {
    "processing": _rows,
    "unsent": _rows,
    "postponed": _rows,
    "bucket": _numbers,
    "paused": _paused,
    "finishing": _finishing,
    "active_tasks": _rows,
}
"""Entries that only a clean record passes on, all or none of them."""

ORDER: Mapping[str, Rule] = {"pending": _rows, "lasting": _rows}
"""What a clean record passes on as well; without it, rows tell the order of pending tasks, and all
tasks in flight count as lost in the usual time."""

ROWS: Mapping[str, Rule] = {
    "processing": _in_flight,
    "pending": _in_flight,
    "lasting": _lasting,
    "unsent": _task,
    "postponed": _task,
    "active_tasks": _active_task,
}
"""For each list, the rule for one of its rows; one that breaks it costs no other."""

KNOWLEDGE: Mapping[str, Rule] = {
    "md5sum": _text,
    "info": _info,
    "counters": _counters,
    "tick": _second,
    "running": _moment,
}
"""Entries that mislead nobody even if they are out of date."""


def _is_row(value: object, length: int) -> bool:
    return isinstance(value, list | tuple) and len(value) == length


def _is_log_entry(task: object) -> bool:
    """Return whether pyspider can decide from it whether to pause."""
    if not isinstance(task, dict):
        return False
    process = _at(task, "track", "process")
    return task.get("type") == 1 or (isinstance(process, dict) and "ok" in process)


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
