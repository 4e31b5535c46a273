"""Progress of a job, and what a batch amounts to."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from pyspider_zk.errors import BadMessage
from pyspider_zk.jobs.model import Batch, Job, JobName, JobState, Outcome
from pyspider_zk.jobs.operations import counted_stage
from pyspider_zk.jobs.requests import Note, Work
from pyspider_zk.zookeeper.codec import checked, plain

ERRORS_SHOWN = 100
REASON_LIMIT = 200  # characters; a job's znode holds a reason for each project that failed
REASONS_LIMIT = 128 * 1024  # bytes of all reasons that a job's znode holds
CUT = "…"
"""What ends a reason that was cut."""


@dataclass(frozen=True)
class Progress:
    """How far a job came: all that its next claimant must know to go on.

    Attributes:
        stage: which stage of its operation it is in.
        at: how many projects this stage has been through.
        later: projects among those that are not done, with the reason if they failed.
        errors: projects that are given up, with the reason.
        versions: the version of each project's row that the operation began with.
    """

    stage: int = 0
    at: int = 0
    later: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, reported: Mapping[str, Any]) -> Self:
        """Read the form that ``as_dict`` returns; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: it is not that form; anybody may have written it.
        """
        progress = checked(cls, reported)
        if min(progress.stage, progress.at) < 0:
            raise BadMessage("progress counts from 0 on")
        return progress

    def as_dict(self) -> dict[str, Any]:
        """Return the form for the job's znode.

        If there are too many long reasons for it, they are cut, the longest first; ``CUT`` ends
        each that was.
        """
        reasons = [*self.later.values(), *self.errors.values()]
        longest = _longest(reasons, REASONS_LIMIT)
        cut = {
            key: {name: _cut(reason, longest) for name, reason in getattr(self, key).items()}
            for key in ("later", "errors")
        }
        return {**asdict(self), **cut}


def brief(reason: object) -> str:
    """Return a reason as one line, cut to what a znode may hold of it."""
    text = " ".join(str(reason).split()).encode(errors="replace").decode()
    return text if len(text) <= REASON_LIMIT else text[: REASON_LIMIT - 1] + CUT


def _size(text: str) -> int:
    return len(plain(text))


def _longest(reasons: Iterable[str], limit: int) -> int:
    """Return how many bytes each reason may have so that all together have no more than that."""
    sizes = sorted(map(_size, reasons))
    for place, size in enumerate(sizes):
        share = limit // (len(sizes) - place)
        if size > share:
            return share
        limit -= size
    return max(sizes, default=0)


def _cut(reason: str, size: int) -> str:
    """Return a reason whose JSON has no more than so many bytes."""
    if _size(reason) <= size:
        return reason
    kept = reason[:size]
    while kept and _size(kept + CUT) > size:
        kept = kept[: len(kept) * 3 // 4]
    return kept + CUT


def work_of(job: Job) -> Work:
    """Return what a job is to do; what cannot be read is nothing."""
    return _work(job.work)


def progress_of(job: Job) -> Progress:
    """Return how far a job came; what cannot be read is not far."""
    try:
        return Progress.parse(job.progress)
    except BadMessage:
        return Progress()


def _work(work: object) -> Work:
    try:
        return Work.parse(work)
    except BadMessage:
        return Work("")


def done(asked: Mapping[str, Any], progress: Progress) -> list[str]:
    """Return the projects that are done, of those that a job is for."""
    work = _work(asked)
    names = work.projects
    counted = counted_stage(work.operation, work.arguments)
    if progress.stage < counted:
        return []
    through = names if progress.stage > counted else names[: progress.at]
    return [name for name in through if name not in {**progress.later, **progress.errors}]


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


def outcome_dict(name: JobName, job: Job) -> dict[str, Any]:
    """Return what is kept of a job that has ended."""
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
    """Return what is told of a batch, as plain values."""
    jobs = [job for place in batch.jobs.values() for job in place.values()]
    failed = {name: reason for job in jobs for name, reason in failures(job).items()}
    note = Note.parse(batch.note)
    finished = sum(len(done(job.work, progress_of(job))) for job in jobs)
    remaining = max(0, note.total - finished - len(failed))
    told = {**_unreadable(batch), **dict(sorted(failed.items())[:ERRORS_SHOWN])}
    return {
        "id": batch.id,
        "operation": note.operation,
        "arguments": dict(note.arguments),
        "selection": dict(note.selection),
        "user": note.user,
        "created": batch.created,
        "state": _state(batch, len(failed), remaining),
        "total": note.total,
        "done": finished,
        "failed": len(failed),
        "remaining": remaining,
        "errors": told,
        "jobs": {state.value: len(batch.jobs.get(state, {})) for state in JobState},
    }


def _unreadable(batch: Batch) -> dict[str, str]:
    """Return what is wrong with the jobs that nobody can read, and what to do."""
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
