"""How far a job came, and what a batch amounts to."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from pyspider_zk.core.jobs import Batch, Job, JobName, JobState, Outcome
from pyspider_zk.core.operations import counted_stage

ERRORS_SHOWN = 100
REASON_LIMIT = 200  # characters; a job's znode holds a reason for each project that failed


@dataclass(frozen=True)
class Progress:
    """How far a job came: all that its next claimant must know to go on.

    Attributes:
        stage: which stage of its operation it is in.
        at: how many projects this stage has been through.
        later: projects among those that are not done, with the reason if they failed.
        errors: projects that are given up, with the reason.
        marks: the version of each project's row that the operation began with.
    """

    stage: int = 0
    at: int = 0
    later: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, reported: Mapping[str, Any]) -> Self:
        """Read the form that ``as_dict`` returns; unknown keys of a newer version are ignored."""
        known = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in reported.items() if key in known})

    def as_dict(self) -> dict[str, Any]:
        """Return the form for the job's znode."""
        return asdict(self)


def brief(reason: object) -> str:
    """Return a reason, cut to what a znode may hold of it."""
    return " ".join(str(reason).split())[:REASON_LIMIT]


def done(work: Mapping[str, Any], progress: Progress) -> list[str]:
    """Return the projects that are done, of those that a job is for."""
    names = work.get("projects", ())
    counted = counted_stage(work)
    if progress.stage < counted:
        return []
    through = names if progress.stage > counted else names[: progress.at]
    return [name for name in through if name not in {**progress.later, **progress.errors}]


def failures(job: Job) -> dict[str, str]:
    """Return the projects that a job failed for, with the reasons.

    A job that failed as a whole failed for all that it had not done.
    """
    progress = Progress.parse(job.progress)
    if job.outcome is not Outcome.FAILED:
        return dict(progress.errors)
    finished = set(done(job.work, progress))
    undone = [name for name in job.work.get("projects", ()) if name not in finished]
    reasons = {**progress.later, **progress.errors}
    return {name: reasons.get(name) or job.reason for name in undone}


def outcome_dict(name: JobName, job: Job) -> dict[str, Any]:
    """Return what is kept of a job that has ended."""
    return {
        "job": str(name),
        "batch": name.group,
        "operation": str(job.work.get("operation")),
        "arguments": job.work.get("arguments"),
        "outcome": str(job.outcome),
        "reason": job.reason,
        "done": done(job.work, Progress.parse(job.progress)),
        "errors": failures(job),
    }


def batch_dict(batch: Batch) -> dict[str, Any]:
    """Return what is told of a batch, as plain values."""
    jobs = [job for place in batch.jobs.values() for job in place.values()]
    failed = {name: reason for job in jobs for name, reason in failures(job).items()}
    total = int(batch.note.get("total", 0))
    finished = sum(len(done(job.work, Progress.parse(job.progress))) for job in jobs)
    remaining = max(0, total - finished - len(failed))
    return {
        "id": batch.id,
        "operation": batch.note.get("operation", ""),
        "arguments": dict(batch.note.get("arguments", {})),
        "selection": dict(batch.note.get("selection", {})),
        "user": batch.note.get("user", ""),
        "created": batch.created,
        "state": _state(batch, len(failed), remaining),
        "total": total,
        "done": finished,
        "failed": len(failed),
        "remaining": remaining,
        "errors": dict(sorted(failed.items())[:ERRORS_SHOWN]),
        "jobs": {state.value: len(batch.jobs.get(state, {})) for state in JobState},
    }


def _state(batch: Batch, failed: int, remaining: int) -> str:
    if not batch.ended:
        begun = batch.jobs[JobState.RUNNING] or batch.jobs[JobState.DONE]
        return "running" if begun else "pending"
    if remaining:  # a cancellation that came too late changed nothing
        return "cancelled"
    return "failed" if failed else "done"
