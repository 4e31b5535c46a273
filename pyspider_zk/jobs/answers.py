"""Answers about projects, plans and batches: as members, API and client return them.

And how they, events and stored outcomes are made from batches and their jobs. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.jobs.model import Batch, Job, JobName, JobState, Outcome
from pyspider_zk.jobs.operations import Note, Progress, Work, counted_stage

ENDED = ("done", "failed", "cancelled")
"""The final states of a batch."""

BATCH_STATES = ("pending", "running", *ENDED)

ERRORS_SHOWN = 100
EVENT_NAMES = 100  # projects of a batch that its event names

_ENDS = {"done": "is done", "failed": "has failed", "cancelled": "was cancelled"}


class _Plain:
    """A dataclass made of the plain values that a scheduler answers with."""

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> Self:
        """Read an answer; unknown keys of a newer version are ignored."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{key: value for key, value in answer.items() if key in known})

    def as_dict(self) -> dict[str, Any]:
        """Return the plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class BatchStatus(_Plain):
    """A batch and its progress.

    Attributes:
        arguments: the operation's.
        user: who requested it.
        created: seconds since the epoch.
        state: pending, running, done, failed or cancelled; failed if any project did.
        total: projects, like ``done``, ``failed`` and ``remaining``.
        errors: the first projects that failed, with the reasons.
        jobs: how many are pending, running and done.
    """

    id: str
    operation: str
    state: str
    total: int
    done: int
    failed: int
    remaining: int
    created: float
    user: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the batch has ended."""
        return self.state in ENDED


@dataclass(frozen=True)
class Plan(_Plain):
    """Plan: what an operation would do.

    Attributes:
        count: how many projects.
        names: the first of them.
        jobs: how many jobs it would become.
        faults: reasons why it would be refused, or fail.
        digest: stands for all the names.
        unknown: names that were given and that no project has.
    """

    operation: str
    count: int
    jobs: int
    names: list[str]
    faults: list[str]
    digest: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Project(_Plain):
    """A project without its script.

    Attributes:
        rate: tasks per second.
        burst: tasks at once.
        updatetime: seconds since the epoch.
        slot: the slot that it belongs to.
        owner: number of the member that schedules it; None: nobody at present.
    """

    name: str
    group: str | None
    status: str
    rate: float | None
    burst: float | None
    updatetime: float | None
    slot: int
    owner: int | None


def failures(job: Job) -> dict[str, str]:
    """Return the projects that a job failed for, with the reasons.

    A job that failed as a whole failed for all that it had not done.
    """
    progress = _progress(job)
    if job.outcome is not Outcome.FAILED:
        return dict(progress.errors)
    finished = set(_done(job))
    undone = [name for name in _work(job).projects if name not in finished]
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
        "operation": _work(job).operation,
        "arguments": _work(job).arguments,
        "outcome": str(job.outcome),
        "reason": job.reason,
        "done": _done(job),
        "errors": failures(job),
    }


def batch_dict(batch: Batch) -> dict[str, Any]:
    """Return the status of a batch, as plain values."""
    failed, note = batch_failures(batch), Note.parse(batch.note)
    finished = sum(len(_done(job)) for job in _jobs(batch))
    remaining = max(0, note.total - finished - len(failed))
    told = {**_unreadable(batch), **dict(sorted(failed.items())[:ERRORS_SHOWN])}
    return BatchStatus(
        id=batch.id,
        operation=note.operation,
        arguments=dict(note.arguments),
        selection=dict(note.selection),
        user=note.user,
        created=batch.record.created,
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
    if remaining and batch.record.cancelled:  # one that came too late changed nothing
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


def _what(note: Note) -> str:
    return f"{note.operation} of {note.total} project{'' if note.total == 1 else 's'}"


def _work(job: Job) -> Work:
    """Return the work of a job, empty if it cannot be read."""
    try:
        return Work.parse(job.work)
    except BadMessage:
        return Work("")


def _progress(job: Job) -> Progress:
    """Return the progress of a job, none if it cannot be read."""
    try:
        return Progress.parse(job.progress)
    except BadMessage:
        return Progress()


def _done(job: Job) -> list[str]:
    """Return the projects of a job that are done."""
    work, progress = _work(job), _progress(job)
    counted = counted_stage(work.operation, work.arguments)
    if progress.stage < counted:
        return []
    through = work.projects if progress.stage > counted else work.projects[: progress.at]
    return [name for name in through if name not in {**progress.later, **progress.errors}]
