"""Rules of jobs: where a job goes next, who may claim it, and how long it is kept."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from hashlib import sha256

from pyspider_zk.errors import JobLost
from pyspider_zk.jobs.model import (
    NO_EPOCH,
    BatchRecord,
    Claim,
    Claimant,
    Found,
    Job,
    JobRules,
    JobState,
    Outcome,
)
from pyspider_zk.pauses import pause_after

STEP_SIZE = 256  # bytes that a step needs besides a job's name and data, root and all


def claimed(
    job: Job, claimant: Claimant, slot_epoch: int = NO_EPOCH, cancelled: bool = False
) -> Job:
    """Return a pending job as its claimant holds it; cancelled if its batch is."""
    cancelled = job.cancelled or cancelled
    claims = job.claims + 1
    return replace(
        job, claimant=claimant.path, claims=claims, slot_epoch=slot_epoch, cancelled=cancelled
    )


def is_at(job: Job, slot_epoch: int) -> bool:
    """Return whether a claim was made at the present slot epoch, so that its claimant may go on.

    A slot that was lost and granted again has another epoch. Its owner in between may have
    taken the job over.
    """
    return job.slot_epoch == slot_epoch


def is_same_claim(job: Job, claim: Claim) -> bool:
    """Return whether a job is still, or was last, held under this claim."""
    return (job.claimant, job.claims) == (claim.job.claimant, claim.job.claims)


def is_same_step(job: Job, other: Job) -> bool:
    """Return whether two records of a job show it after the same move."""
    return (job.claimant, job.claims, job.outcome) == (other.claimant, other.claims, other.outcome)


def after_refusal(
    claim: Claim, wanted: Job, arrived: Job | None, running: Found | None
) -> Claim | None:
    """Return the claim to repeat a refused step with; None if it was done before.

    Args:
        wanted: the job as it is after the step.
        arrived: the job in the place where the step moves it. It is there if the step was done
            and the reply lost.
        running: the job as it runs.

    Raises:
        JobLost: the claim or its claimant no longer exists.
    """
    if arrived and is_same_step(arrived, wanted):
        return None
    if running and is_same_claim(running.job, claim) and running.version != claim.version:
        return Claim(*running)
    raise JobLost(f"job {claim.name} is not held by {claim.job.claimant} any more")


def ended(job: Job, outcome: Outcome, now: float, reason: str = "") -> Job:
    """Return a job that has ended."""
    return replace(job, outcome=outcome, ended=now, reason=reason)


def after_return(job: Job, now: float) -> Job:
    """Return a running job that its claimant gives back: pending, or cancelled.

    One that must be cleaned up is pending nevertheless: its next claimant does nothing else.
    """
    if job.cancelled and not job.needs_cleanup:
        return ended(job, Outcome.CANCELLED, now, job.reason)
    return replace(job, claimant="")


def after_failure(job: Job, now: float, rules: JobRules, reason: str) -> Job:
    """Return a running job that failed: pending after a pause, or failed after the last try."""
    attempts = job.attempts + 1
    job = replace(job, attempts=attempts, reason=reason)
    if attempts >= rules.tries:
        return _given_up(job, now, reason)
    pause = pause_after(attempts, rules.pauses)
    return after_return(replace(job, not_before=now + pause), now)


def after_death(job: Job, now: float, rules: JobRules) -> Job:
    """Return a running job whose claimant is gone, or hangs: pending at once.

    After too many such deaths it has failed.
    """
    job = replace(job, deaths=job.deaths + 1)
    if job.deaths >= rules.deaths:
        return _given_up(job, now, f"{job.deaths} claimants died of it or hung")
    return after_return(job, now)


def _given_up(job: Job, now: float, reason: str) -> Job:
    return ended(job, Outcome.CANCELLED if job.cancelled else Outcome.FAILED, now, reason)


def place_of(job: Job) -> JobState:
    """Return where a job belongs according to its record."""
    if job.outcome is not None:
        return JobState.DONE
    return JobState.RUNNING if job.claimant else JobState.PENDING


def is_due(job: Job, now: float) -> bool:
    """Return whether a pending job may be claimed yet."""
    return job.not_before <= now


class Concern(StrEnum):
    """Relation of a running job to a process that looks for jobs."""

    OTHERS = "another holds it"
    HELD = "I know that I hold it"
    ADOPTED = "I hold it, but the reply to my claim was lost"
    ORPHAN = "its claimant is gone"
    OUTRUN = "its claimant has lost the slot, and hangs or was slow to give it back"


def concern_of(
    claim: Claim, me: Claimant, held: bool, standing: Container[str], slot_epoch: int
) -> Concern:
    """Return the relation of a running job to this process, which is "I" here.

    Args:
        held: whether I know of this claim.
        standing: paths of the claimants that existed *after* the job was read. A claimant registers
            before it claims, so one that is missing here is gone.
        slot_epoch: the one at which I own the job's project; 0: I do not. A claimant with a lower
            one no longer owns it, whatever it believes.
    """
    if claim.job.claimant == me.path:
        return Concern.HELD if held else Concern.ADOPTED
    if not slot_epoch:
        return Concern.OTHERS
    if claim.job.claimant not in standing:
        return Concern.ORPHAN
    return Concern.OUTRUN if claim.job.slot_epoch < slot_epoch else Concern.OTHERS


def forgettable(
    records: Mapping[str, BatchRecord],
    done: Mapping[str, int],
    busy: Container[str],
    now: float,
    rules: JobRules,
) -> list[str]:
    """Return the batches that may be deleted, the oldest first.

    Done jobs without a batch come before all others; the newest batch is kept in any case.

    Args:
        records: all batches, the newest first.
        done: how many done jobs of each are kept.
        busy: those that have jobs which are not done.
    """
    batches_left, jobs_left = rules.keep_batches, rules.keep_jobs
    excess: list[str] = []
    for place, (batch, record) in enumerate(records.items()):
        batches_left -= 1
        jobs_left -= done.get(batch, 0)
        is_over = place > 0 and min(batches_left, jobs_left) < 0
        is_ended = record.settled and not record.to_close
        is_ended = is_ended or now - record.created > rules.abandoned
        if is_over and is_ended and batch not in busy:
            excess.append(batch)
    orphans = [batch for batch in done if batch not in records and batch not in busy]
    return orphans + excess[::-1]


def fitting(jobs: Iterable[tuple[str, bytes]], room: int) -> list[tuple[str, bytes]]:
    """Return the first of these names and data that fit into one transaction, at least one."""
    part: list[tuple[str, bytes]] = []
    for name, data in jobs:
        room -= len(name.encode()) + len(data) + STEP_SIZE
        if room < 0 and part:
            break
        part.append((name, data))
    return part


def digest_of(value: object) -> str:
    """Return a digest that distinguishes requests, or selections of projects.

    Args:
        value: as JSON knows it.
    """
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
