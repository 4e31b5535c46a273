"""Jobs added to a scheduler's local jobs by hand, as the job thread does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspider_zk.jobs.execution import JobWork
from pyspider_zk.jobs.model import Claim, Job, JobName, Outcome
from pyspider_zk.jobs.operations import Progress
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock

ROUNDS = 200  # that no test needs


def a_claim(
    operation: str,
    projects: Sequence[str],
    arguments: Mapping[str, Any] | None = None,
    batch: str = "b1",
    progress: Progress | None = None,
    **job: Any,
) -> Claim:
    """Return a claim, as the queue gives it."""
    work = {"operation": operation, "arguments": arguments or {}, "projects": list(projects)}
    name = JobName(500, batch, projects[0], 1)
    reported = progress.as_dict() if progress else {}
    return Claim(name, Job(work, created=0.0, claimant="/m/1", progress=reported, **job), 0)


def add(scheduler: SlotScheduler, claim: Claim, clock: Clock | None = None) -> JobWork:
    """Add a claim to the scheduler's local jobs, made at the epoch that it has its slots at."""
    if clock is not None:
        scheduler.local_jobs._clock = clock
    claimed = replace(claim, job=replace(claim.job, slot_epoch=epoch_of(scheduler)))
    work = scheduler.local_jobs.add(claimed)
    scheduler.engine.calls.make()
    return work


def epoch_of(scheduler: SlotScheduler) -> int:
    """Return the epoch at which a scheduler was granted all its slots."""
    assert scheduler.fence.ownership is not None
    (epoch,) = set(scheduler.fence.ownership.view.owned.values())
    return epoch


def confirm(works: Iterable[JobWork]) -> None:
    """Record what is new, as if it was reported."""
    for work in works:
        _, changes = work.progress()
        work.recorded(work.claim, changes)


def carry_out(scheduler: SlotScheduler, claim: Claim) -> JobWork:
    """Run rounds until a job is over here; time passes between them as fast as it is waited for."""
    clock = Clock()
    work = add(scheduler, claim, clock)
    for _ in range(ROUNDS):
        if work.verdict is not None:
            break
        scheduler.run_once()
        confirm([work])
        clock.now += 1
    assert work.verdict is not None, f"not over: {work.progress()[0]}"
    scheduler.local_jobs.clear(work)
    return work


def done(work: JobWork) -> bool:
    """Return whether a job ended as it should."""
    assert work.verdict is not None
    progress, _ = work.progress()
    return work.verdict.outcome is Outcome.DONE and not progress.errors
