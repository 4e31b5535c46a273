"""Reports on jobs and batches, in answers, in events and in the result database."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import brief
from pyspider_zk.jobs.answers import BatchStatus
from pyspider_zk.jobs.model import Batch, Job, JobName, JobState, Outcome
from pyspider_zk.jobs.operations import Note
from pyspider_zk.jobs.progress import done, progress_of, work_of

ERRORS_SHOWN = 100
EVENT_NAMES = 100  # projects of a batch that its event names


def failures(job: Job) -> dict[str, str]:
    """Return the projects that a job failed for, with the reasons.

    A job that failed as a whole failed for all that it had not done.
    """
    progress = progress_of(job)
    if job.outcome is not Outcome.FAILED:
        return dict(progress.errors)
    finished = set(done(job.work, progress))
    undone = [name for name in work_of(job).projects if name not in finished]
    reasons = {**progress.later, **progress.errors}
    return {name: reasons.get(name) or job.reason for name in undone}


def batch_failures(batch: Batch) -> dict[str, str]:
    """Return the projects that a batch failed for, with the reasons."""
    return {name: reason for job in _jobs(batch) for name, reason in failures(job).items()}


def _jobs(batch: Batch) -> Iterator[Job]:
    return (job for place in batch.jobs.values() for job in place.values())


def outcome_dict(name: JobName, job: Job) -> dict[str, Any]:
    """Return the stored outcome of a job that has ended."""
    return {
        "job": str(name),
        "batch": name.group,
        "operation": work_of(job).operation,
        "arguments": work_of(job).arguments,
        "outcome": str(job.outcome),
        "reason": job.reason,
        "done": done(job.work, progress_of(job)),
        "errors": failures(job),
    }


def batch_dict(batch: Batch) -> dict[str, Any]:
    """Return the status of a batch, as plain values."""
    failed, note = batch_failures(batch), Note.parse(batch.note)
    finished = sum(len(done(job.work, progress_of(job))) for job in _jobs(batch))
    remaining = max(0, note.total - finished - len(failed))
    told = {**_unreadable(batch), **dict(sorted(failed.items())[:ERRORS_SHOWN])}
    return BatchStatus(
        id=batch.id,
        operation=note.operation,
        arguments=dict(note.arguments),
        selection=dict(note.selection),
        user=note.user,
        created=batch.created,
        state=_state(batch, len(failed), remaining),
        total=note.total,
        done=finished,
        failed=len(failed),
        remaining=remaining,
        errors=told,
        jobs={state.value: len(batch.jobs.get(state, {})) for state in JobState},
    ).as_dict()


def _unreadable(batch: Batch) -> dict[str, str]:
    """Return what is wrong with the unreadable jobs, and what to do."""
    return {
        str(name): f"this job cannot be read ({brief(reason)}): cancel the batch"
        for name, reason in [*batch.unreadable.items()][:ERRORS_SHOWN]
    }


def _state(batch: Batch, failed: int, remaining: int) -> str:
    if not batch.ended:
        begun = batch.jobs[JobState.RUNNING] or batch.jobs[JobState.DONE]
        return "running" if begun else "pending"
    if remaining and batch.cancelled:  # one that came too late changed nothing
        return "cancelled"
    return "failed" if failed or remaining else "done"


def asked_event(batch: str, note: Note, now: float, projects: Sequence[str] = ()) -> Event:
    """Return the event of a request, with its projects; of many the first are named."""
    data = {"operation": note.operation, "arguments": note.arguments, "total": note.total}
    data["projects"] = list(projects[:EVENT_NAMES])
    text = f"{_what(note)} was asked for"
    return Event(EventKind.BATCH, text, now, note.user, {**data, "batch": batch})


def cancelled_event(batch: str, note: Note, user: str, now: float) -> Event:
    """Return the event of a cancellation."""
    text = f"batch {batch}, {_what(note)}, was to be cancelled"
    return Event(EventKind.CANCEL, text, now, user, {"batch": batch})


def ended_event(batch: Batch, now: float) -> Event:
    """Return the event of a batch's end, with its result."""
    told = batch_dict(batch)
    data = {key: told[key] for key in ("state", "done", "failed", "remaining")}
    counts = f"{told['done']} done, {told['failed']} failed"
    if told["remaining"]:
        counts += f", {told['remaining']} cancelled"
    text = f"{_what(Note.parse(batch.note))} {_ENDS[told['state']]}: {counts}"
    return Event(EventKind.ENDED, text, now, told["user"], {"batch": batch.id, **data})


_ENDS = {"done": "is done", "failed": "has failed", "cancelled": "was cancelled"}


def _what(note: Note) -> str:
    return f"{note.operation} of {note.total} projects"
