"""What one owner passes to the next: a project's state that no database holds.

A slot's record is saved when the slot is given up (``clean``: nothing happened afterwards) and
from time to time in between. A clean record of the epoch just before is taken whole. After a
death the last record is older than the truth; only what cannot mislead is taken from it.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyspider.scheduler.scheduler import Project
from pyspider.scheduler.task_queue import InQueueTask

Part = Mapping[str, Any]
"""One project's share of a slot's record."""


def slot_record(epoch: int, clean: bool, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return the record of a slot."""
    return {"epoch": epoch, "clean": clean, "projects": dict(parts)}


def is_clean(record: Mapping[str, Any] | None, epoch: int) -> bool:
    """Tell whether a record was left by the owner just before this epoch, complete."""
    return record is not None and bool(record["clean"]) and record["epoch"] == epoch - 1


def project_part(
    project: Project, unsent: Iterable[Mapping[str, Any]], postponed: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a project's state, except its counters and tick.

    Times that only this host's clock knows are given as ages.
    """
    queue, now = project.task_queue, time.time()
    processing = list(queue.processing.queue_dict.values())
    part = {
        "md5sum": project.md5sum,
        "processing": [[item.taskid, item.priority, item.exetime] for item in processing],
        "unsent": list(unsent),
        "postponed": list(postponed),
        "bucket": [queue.bucket.bucket, now - queue.bucket.last_update],
        "paused": [project._paused, now - project._paused_time, _seen(project)],
        "finishing": [project._selected_tasks, project._send_finished_event_wait],
        "active_tasks": [list(entry) for entry in project.active_tasks],
    }
    if not project.waiting_get_info:
        part["info"] = {
            "min_tick": project.min_tick,
            "retry_delay": project.retry_delay,
            "crawl_config": project.crawl_config,
        }
    return part


def restore_script_info(project: Project, part: Part) -> None:
    """Spare the round trip through the processor, if the script is still the same."""
    if project.active and part.get("md5sum") == project.md5sum and "info" in part:
        project.on_get_info(part["info"])
        project._send_on_get_info = False


def restore_state(project: Project, part: Part) -> None:
    """Go on where the former owner stopped; only from a clean record."""
    bucket, now = project.task_queue.bucket, time.time()
    bucket.bucket, age = part["bucket"]
    bucket.last_update = now - age
    for entry in reversed(part["active_tasks"]):
        project.active_tasks.appendleft(tuple(entry))
    project._paused, age, seen = part["paused"]
    project._paused_time = now - age
    if seen is not None:
        project._unpause_last_seen = project.active_tasks[seen][1]
    project._selected_tasks, project._send_finished_event_wait = part["finishing"]


def last_tick(part: Part) -> int | None:
    """Return the second that a project's ticks were sent to.

    Ticks in the buffer are counted as sent. Only a clean record passes the buffer on.
    """
    tick: int | None = part.get("tick")
    if tick is None or part.get("clean"):
        return tick
    unsent = (task for task in part["unsent"] if task["taskid"] == "_on_cronjob")
    return min([tick, *(int(task["fetch"]["save"]["tick"]) - 1 for task in unsent)])


def restore_processing(project: Project, part: Part) -> set[str]:
    """Mark the tasks that are with fetcher or processor; return their ids."""
    for taskid, priority, exetime in part["processing"]:
        project.task_queue.processing.put(InQueueTask(taskid, priority, exetime))
    return {taskid for taskid, _, _ in part["processing"]}


def _seen(project: Project) -> int | None:
    """Return the place of the last active task before the pause; pyspider knows it by sight."""
    entries = enumerate(list(project.active_tasks))
    found = (at for at, (_, task) in entries if task is project._unpause_last_seen)
    return next(found, None)
