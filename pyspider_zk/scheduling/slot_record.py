"""Slot record: what a slot's owner passes on to the next, the state that no database holds.

A slot's record is saved when the slot is given up (``clean``: nothing happened afterwards) and
from time to time before. A clean record of the previous epoch is used whole. After a death the
last record is out of date; only the parts that cannot mislead are used.

A record may hold anything, so each entry has a rule: a function of the entry and the project's
name, which returns whether the entry can be used.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.names import is_project_name
from pyspider_zk.projects.rows import is_name, is_number
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.tasks import check_task, is_comparable, is_whole, usable_info
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.task_rules import LONGEST

Part = Mapping[str, Any]
"""One project's share of a slot's record."""


def slot_record(epoch: int, clean: bool, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return the record of a slot."""
    return {"epoch": epoch, "clean": clean, "projects": dict(parts)}


def read_record(record: Mapping[str, Any] | None, epoch: int) -> tuple[dict[str, Part], list[str]]:
    """Return the usable parts of a record, and descriptions of what cannot be used.

    A record is clean if the owner of the previous epoch left it complete. An invalid part is used
    as after a death; the others are used whole, but for rows of their lists that are invalid.
    """
    if record is None:
        return {}, []
    found = record.get("projects")
    if not isinstance(found, dict):
        return {}, ["it names no projects"]
    clean = is_clean(record, epoch)
    parts: dict[str, Part] = {}
    faults: list[str] = []
    for name, part in found.items():
        if not is_name(name) or not isinstance(part, dict):
            faults.append(f"{name!r:.40} is not a project's part")
            continue
        parts[name], wrong = _usable(name, part, clean)
        faults += wrong
    return parts, faults


def is_clean(record: Mapping[str, Any], epoch: int) -> bool:
    """Return whether the owner of the epoch before handed everything over in a record."""
    return record.get("clean") is True and record.get("epoch") == epoch - 1


def kept(name: str, part: Part) -> tuple[Part, list[str]]:
    """Return what its own owner can use of a part when it loads the project again, and the rest.

    The rest is given as descriptions.
    """
    return _usable(name, part, clean=True)


def _usable(name: str, part: Part, clean: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the usable entries of a part, and descriptions of the others."""
    rules = {**KNOWLEDGE, **STATE, **ORDER}
    given = {key: value for key, value in part.items() if key in rules}
    good = {key: value for key, value in given.items() if rules[key](value, name)}
    wrong = [key for key in given if key not in good]
    for key in [key for key in ROWS if key in good]:
        good[key] = [row for row in given[key] if ROWS[key](row, name)]
        bad = len(given[key]) - len(good[key])
        wrong += [f"{bad} of {key}"] if bad else []
    whole = clean and good.keys() >= STATE.keys()
    usable = good if whole else {key: good[key] for key in good if key in {*KNOWLEDGE, "unsent"}}
    return {**usable, "clean": whole}, [f"{name}: {', '.join(wrong)}"] if wrong else []


def writable(parts: Mapping[str, Part]) -> dict[str, Part]:
    """Return the parts without what a record cannot hold: numbers beyond 64 bits.

    Tasks in the task database may hold one; then the log of active tasks and the order of pending
    ones are left out, and if that does not help, the project's whole part.
    """
    lists: Part = {"active_tasks": [], "pending": []}
    shortened = {name: {**part, **lists} for name, part in parts.items()}
    good = {name: part for name, part in shortened.items() if _is_writable(part)}
    return {**good, **{name: parts[name] for name in good if _is_writable(parts[name])}}


def _is_writable(part: Part) -> bool:
    try:
        encode(dict(part))
    except BadMessage:
        return False
    return True


def project_part(
    project: LoadedProject,
    unsent: Iterable[Mapping[str, Any]],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Return a project's state, except its counters, its tick and whether it runs.

    Times on this host's clock are given as ages. The log of active tasks, nine tenths of the size,
    and the order of pending tasks are left out of records that are kept in case of a death: nobody
    would read them.
    """
    queue, now, pause = project.task_queue, time.time(), project.pause
    usual = queue.processing_timeout
    processing = queue.processing.queue_dict.values()
    slow = [id_ for id_ in queue.processing.queue_dict if queue.lasting(id_) != usual]
    part: dict[str, Any] = {
        "md5sum": project.md5sum,
        "processing": [[item.taskid, item.priority, item.exetime] for item in processing],
        "unsent": list(unsent),
        "postponed": [],  # older members want it
        "bucket": [queue.bucket.bucket, now - queue.bucket.last_update],
        "paused": [pause.state, now - pause.since, _seen(project)],
        "finishing": [project.has_sent, project.idle_rounds],
    }
    if whole:
        due = sorted(queue.priority_queue.queue_dict.values())
        part["pending"] = [[item.taskid, item.priority, item.exetime] for item in due]
        part["lasting"] = [[taskid, queue.lasting(taskid)] for taskid in slow]
        part["active_tasks"] = [list(entry) for entry in project.active_tasks]
    if not project.waiting_get_info:
        part["cannot_start"] = project.cannot_start
        part["info"] = {
            "min_tick": project.min_tick,
            "retry_delay": project.retry_delay,
            "crawl_config": project.crawl_config,
        }
    return part


def restore_script_info(project: LoadedProject, part: Part) -> None:
    """Save the round trip through the processor if the script is unchanged."""
    if project.active and part.get("md5sum") == project.md5sum and "info" in part:
        project.on_get_info(part["info"], part.get("cannot_start") or "")
        project.is_info_due = False


def restore_state(project: LoadedProject, part: Part) -> None:
    """Continue where the former owner stopped; only from a clean record."""
    bucket, now = project.task_queue.bucket, time.time()
    bucket.bucket, age = part["bucket"]
    bucket.last_update = now - age
    for entry in reversed(part["active_tasks"]):
        project.active_tasks.appendleft(tuple(entry))
    project.pause.state, age, seen = part["paused"]
    project.pause.since = now - age
    if seen is not None and seen < len(project.active_tasks):
        project.pause.seen = project.active_tasks[seen][1]
    project.has_sent, project.idle_rounds = part["finishing"]


def is_finish_due(running: float, requested: Any) -> bool:
    """Return whether a dead owner had yet to call ``on_finished``, if no task is pending now.

    Args:
        running: when its project still ran, in seconds since the epoch.
        requested: when ``on_finished`` was requested last; None if never.
    """
    return not (is_number(requested) and requested >= running)


def last_tick(part: Part) -> int | None:
    """Return the second up to which a project's ticks were sent.

    Ticks in the buffer are counted as sent. Only a clean record passes the buffer on.
    """
    tick: int | None = part.get("tick")
    if tick is None or part.get("clean"):
        return tick
    unsent = (task for task in part.get("unsent", ()) if task["taskid"] == "_on_cronjob")
    return min([tick, *(int(task["fetch"]["save"]["tick"]) - 1 for task in unsent)])


def restore_tasks(project: LoadedProject, part: Part) -> set[str]:
    """Put the tasks that are with fetcher or processor, and those that are due; return their ids.

    None is given up later than if it was sent now, though the former owner's clock was ahead.
    """
    queue, pending = project.task_queue, part.get("pending", ())
    lasting = {taskid: min(seconds, LONGEST) for taskid, seconds in part.get("lasting", ())}
    for taskid, priority, exetime in part["processing"]:
        queue.put_in_flight(taskid, priority, exetime, lasting.get(taskid))
    for taskid, priority, exetime in pending:
        queue.put(taskid, priority, exetime)
    return {taskid for taskid, _, _ in (*part["processing"], *pending)}


def _seen(project: LoadedProject) -> int | None:
    """Return the index of the last active task before the pause; pyspider knows it by identity."""
    entries = enumerate(project.active_tasks)
    found = (at for at, (_, task) in entries if task is project.pause.seen)
    return next(found, None)


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
    "cannot_start": _text,
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


_ALWAYS = "unsent"  # of the state, what does not mislead even after a death


def regrouped(
    records: Mapping[int, Mapping[str, Any]], epochs: Mapping[int, int], slots: int, epoch: int
) -> dict[int, dict[str, Any]]:
    """Return the records of new slots, made of those of old ones.

    A part is complete if the last owner of its old slot left it so. The others lose what would
    mislead, as after a death; the new record may then be called clean, for the next epoch.

    Args:
        epochs: at which each old slot was owned last.
        slots: how many new ones there are.
        epoch: before the first grant of the new slots.
    """
    parts: dict[int, dict[str, Any]] = {}
    for slot, record in records.items():
        is_clean = record.get("clean") is True and record.get("epoch") == epochs.get(slot)
        projects = record.get("projects")
        for name, part in (projects if isinstance(projects, dict) else {}).items():
            if isinstance(name, str) and is_project_name(name) and isinstance(part, dict):
                kept = part if is_clean else _harmless(part)
                parts.setdefault(slot_of(name, slots), {})[name] = kept
    return {slot: {"epoch": epoch, "clean": True, "projects": its} for slot, its in parts.items()}


def _harmless(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in STATE or key == _ALWAYS}
