"""What one owner passes to the next: a project's state that no database holds.

A slot's record is saved when the slot is given up (``clean``: nothing happened afterwards) and
from time to time in between. A clean record of the epoch just before is taken whole. After a
death the last record is older than the truth; only what cannot mislead is taken from it.
"""

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


def project_part(project: Project, unsent: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a project's state, except its counters and tick."""
    queue = project.task_queue
    processing = list(queue.processing.queue_dict.values())
    part = {
        "md5sum": project.md5sum,
        "processing": [[item.taskid, item.priority, item.exetime] for item in processing],
        "unsent": list(unsent),
        "bucket": [queue.bucket.bucket, queue.bucket.last_update],
        "paused": [project._paused, project._paused_time],
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
    bucket = project.task_queue.bucket
    bucket.bucket, bucket.last_update = part["bucket"]
    project._paused, project._paused_time = part["paused"]
    project._selected_tasks, project._send_finished_event_wait = part["finishing"]
    for entry in reversed(part["active_tasks"]):
        project.active_tasks.appendleft(tuple(entry))


def restore_processing(project: Project, part: Part) -> set[str]:
    """Mark the tasks that are with fetcher or processor; return their ids."""
    for taskid, priority, exetime in part["processing"]:
        project.task_queue.processing.put(InQueueTask(taskid, priority, exetime))
    return {taskid for taskid, _, _ in part["processing"]}
