"""Handoff from one owner to the next: the state of projects that no database holds.

A slot's record is saved when the slot is given up (``clean``: nothing happened afterwards) and
from time to time before. A clean record of the previous epoch is used whole. After a death the
last record is out of date; only the parts that cannot mislead are used.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.rows import is_name, is_number
from pyspider_zk.queues.codec import encode
from pyspider_zk.scheduling.fenced_scheduler import ON_FINISHED
from pyspider_zk.scheduling.handoff_rules import KNOWLEDGE, ORDER, ROWS, STATE
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
    clean = _is_clean(record, epoch)
    parts: dict[str, Part] = {}
    faults: list[str] = []
    for name, part in found.items():
        if not is_name(name) or not isinstance(part, dict):
            faults.append(f"{name!r:.40} is not a project's part")
            continue
        parts[name], wrong = _usable(name, part, clean)
        faults += wrong
    return parts, faults


def _is_clean(record: Mapping[str, Any], epoch: int) -> bool:
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
    project: Project,
    unsent: Iterable[Mapping[str, Any]],
    postponed: Iterable[Mapping[str, Any]],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Return a project's state, except its counters and tick.

    Times on this host's clock are given as ages. The log of active tasks, nine tenths of the size,
    and the order of pending tasks are left out of records that are kept in case of a death: nobody
    would read them.
    """
    queue, now, postponed = project.task_queue, time.time(), list(postponed)
    usual = queue.processing_timeout
    is_running = project._selected_tasks or any(map(_is_finish, postponed))
    processing = queue.processing.queue_dict.values()
    slow = [id_ for id_ in queue.processing.queue_dict if queue.lasting(id_) != usual]
    part = {
        "md5sum": project.md5sum,
        "processing": [[item.taskid, item.priority, item.exetime] for item in processing],
        "unsent": list(unsent),
        "postponed": postponed,
        "bucket": [queue.bucket.bucket, now - queue.bucket.last_update],
        "paused": [project._paused, now - project._paused_time, _seen(project)],
        "finishing": [project._selected_tasks, project._send_finished_event_wait],
        "running": now if is_running else None,
    }
    if whole:
        due = sorted(queue.priority_queue.queue_dict.values())
        part["pending"] = [[item.taskid, item.priority, item.exetime] for item in due]
        part["lasting"] = [[taskid, queue.lasting(taskid)] for taskid in slow]
        part["active_tasks"] = [list(entry) for entry in project.active_tasks]
    if not project.waiting_get_info:
        part["info"] = {
            "min_tick": project.min_tick,
            "retry_delay": project.retry_delay,
            "crawl_config": project.crawl_config,
        }
    return part


def restore_script_info(project: Project, part: Part) -> None:
    """Save the round trip through the processor if the script is unchanged."""
    if project.active and part.get("md5sum") == project.md5sum and "info" in part:
        project.on_get_info(part["info"])
        project._send_on_get_info = False


def restore_state(project: Project, part: Part) -> None:
    """Continue where the former owner stopped; only from a clean record."""
    bucket, now = project.task_queue.bucket, time.time()
    bucket.bucket, age = part["bucket"]
    bucket.last_update = now - age
    for entry in reversed(part["active_tasks"]):
        project.active_tasks.appendleft(tuple(entry))
    project._paused, age, seen = part["paused"]
    project._paused_time = now - age
    if seen is not None and seen < len(project.active_tasks):
        project._unpause_last_seen = project.active_tasks[seen][1]
    project._selected_tasks, project._send_finished_event_wait = part["finishing"]


def is_finish_due(running: float, requested: Any) -> bool:
    """Return whether a dead owner had yet to call ``on_finished``, if no task is pending now.

    Args:
        running: when its project still ran, in seconds since the epoch.
        requested: when ``on_finished`` was requested last; None if never.
    """
    return not (is_number(requested) and requested >= running)


def _is_finish(task: Mapping[str, Any]) -> bool:
    return bool(task["taskid"] == ON_FINISHED)


def last_tick(part: Part) -> int | None:
    """Return the second up to which a project's ticks were sent.

    Ticks in the buffer are counted as sent. Only a clean record passes the buffer on.
    """
    tick: int | None = part.get("tick")
    if tick is None or part.get("clean"):
        return tick
    unsent = (task for task in part.get("unsent", ()) if task["taskid"] == "_on_cronjob")
    return min([tick, *(int(task["fetch"]["save"]["tick"]) - 1 for task in unsent)])


def restore_tasks(project: Project, part: Part) -> set[str]:
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


def _seen(project: Project) -> int | None:
    """Return the index of the last active task before the pause; pyspider knows it by identity."""
    entries = enumerate(project.active_tasks)
    found = (at for at, (_, task) in entries if task is project._unpause_last_seen)
    return next(found, None)
