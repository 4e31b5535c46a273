"""Events of batches."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.jobs.model import Batch
from pyspider_zk.jobs.progress import batch_dict
from pyspider_zk.jobs.requests import Note

NAMED = 100  # projects of a batch that its event names


def asked(batch: str, note: Mapping[str, Any], now: float, projects: Sequence[str] = ()) -> Event:
    """Tell that a batch was asked for, and for which projects; of many the first are named."""
    read = Note.parse(note)
    data = {"operation": read.operation, "arguments": read.arguments, "total": read.total}
    data["projects"] = list(projects[:NAMED])
    text = f"{_what(note)} was asked for"
    return Event(EventKind.BATCH, text, now, read.user, {**data, "batch": batch})


def cancelled(batch: Batch, user: str, now: float) -> Event:
    """Tell that somebody wanted a batch to stop."""
    text = f"batch {batch.id}, {_what(batch.note)}, was to be cancelled"
    return Event(EventKind.CANCEL, text, now, user, {"batch": batch.id})


def ended(batch: Batch, now: float) -> Event:
    """Tell that a batch has ended, and with what result."""
    told = batch_dict(batch)
    data = {key: told[key] for key in ("state", "done", "failed", "remaining")}
    counts = f"{told['done']} done, {told['failed']} failed"
    if told["remaining"]:
        counts += f", {told['remaining']} cancelled"
    text = f"{_what(batch.note)} {_ENDS[told['state']]}: {counts}"
    return Event(EventKind.ENDED, text, now, told["user"], {"batch": batch.id, **data})


_ENDS = {"done": "is done", "failed": "has failed", "cancelled": "was cancelled"}


def _what(note: Mapping[str, Any]) -> str:
    read = Note.parse(note)
    return f"{read.operation} of {read.total} projects"
