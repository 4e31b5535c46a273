"""Transactions that move jobs, as lists of steps: all of one list are done, or none.

A move deletes the znode of the old place at the version that was read and creates the one of the
new place. So of two moves of a job that were decided on the same read, one is refused; and no
crash leaves a job in two places or in none.

A znode that is created again starts again at version 0: a job that was given back and claimed by
another would look like the one that was read before. So a job that was ever claimed has a child
with the number of that claim, its *fencing token*, and every move names the token that it was
decided on. A job that was never claimed has no child; deleting it is refused once it has one.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspider_zk.errors import BatchTaken
from pyspider_zk.jobs.model import (
    TRANSACTION_LIMIT,
    BatchRecord,
    Claim,
    Found,
    Job,
    JobName,
    JobState,
    Junk,
    Outcome,
    quoted_whole,
)
from pyspider_zk.jobs.rules import STEP_SIZE, ended, fitting, place_of
from pyspider_zk.zookeeper.steps import ANY_VERSION, Check, Create, Delete, Step, Write


@dataclass(frozen=True)
class JobTree:
    """The znodes of one job queue, below its root."""

    root: str

    def place(self, state: JobState) -> str:
        """Parent of the jobs in one place."""
        return f"{self.root}/{state}"

    def job(self, state: JobState, name: JobName) -> str:
        """A job in one place."""
        return f"{self.place(state)}/{name}"

    def token(self, state: JobState, name: JobName, job: Job) -> str:
        """Fencing token: child of a job that was claimed, until it is claimed again or done."""
        return f"{self.job(state, name)}/{job.claims}"

    @property
    def batches(self) -> str:
        """Parent of the batches."""
        return f"{self.root}/batches"

    def batch(self, batch: str) -> str:
        """One batch."""
        return f"{self.batches}/{quoted_whole(batch)}"

    @property
    def all(self) -> list[str]:
        """The znodes that must exist before a put."""
        return [*map(self.place, JobState), self.batches]


def put_steps(
    tree: JobTree,
    batch: str,
    fresh: BatchRecord,
    found: tuple[BatchRecord, int] | None,
    jobs: Sequence[tuple[str, bytes]],
    room: int = TRANSACTION_LIMIT,
    event: Create | None = None,
) -> list[Step]:
    """Put as many jobs of a batch as fit into one transaction; no steps if none is missing.

    The batch's znode records how many were put. It is written in the same transaction, at the
    version that was read, so no job is put twice.

    Args:
        fresh: the batch as requested.
        found: the batch as it is, with its version; None if there is none yet.
        jobs: all of them: their names without the sequence, and their bytes.
        event: what is written with the first of them.

    Raises:
        BatchTaken: it was put in part, with other jobs.
    """
    record, version = found or (fresh, ANY_VERSION)
    if found and record.settled:
        return []
    if record.digest != fresh.digest:
        raise BatchTaken(f"batch {batch!r} was put in part, with other jobs: cancel it")
    told = [event] if event and not found else []
    room -= len(record.encode()) + sum(len(step.data) for step in told)
    part = fitting(jobs[record.put :], room)
    path, pending = tree.batch(batch), tree.place(JobState.PENDING)
    data = replace(record, put=record.put + len(part)).encode()
    mark = Write(path, data, version) if found else Create(path, data)
    puts = (Create(f"{pending}/{name}", job, sequence=True) for name, job in part)
    return [mark, *told, *puts]


def claim_steps(
    tree: JobTree, pending: Found, running: Job, batch_version: int | None
) -> list[Step]:
    """Claim a pending job.

    The batch's version is checked, because a cancelled batch has no jobs to claim but those to
    clean up, which are cancelled as they are claimed: after the mark in the batch no job of it can
    begin to run.

    Args:
        running: the job as ``job_rules.claimed`` returns it.
        batch_version: None if there is no batch.
    """
    checked = (
        [] if batch_version is None else [Check(tree.batch(pending.name.group), batch_version)]
    )
    return [
        Check(running.claimant),
        *checked,
        *_leave(tree, JobState.PENDING, pending),
        *arrive_steps(tree, pending.name, running),
    ]


def report_steps(tree: JobTree, claim: Claim, job: Job) -> list[Step]:
    """Write the progress that the claimant reports of its running job."""
    return [Check(claim.job.claimant), *_rewrite(tree, claim, job)]


def finish_steps(tree: JobTree, claim: Claim, job: Job) -> list[Step]:
    """End a running job."""
    return [Check(claim.job.claimant), *return_steps(tree, claim, job)]


def return_steps(tree: JobTree, claim: Claim, job: Job) -> list[Step]:
    """Move a running job to the place where it belongs according to its record."""
    return [*_leave(tree, JobState.RUNNING, claim), *arrive_steps(tree, claim.name, job)]


def cancel_record_steps(
    tree: JobTree, batch: str, record: BatchRecord, version: int, event: Create | None = None
) -> list[Step]:
    """Mark a batch: no more of its jobs is put or claimed; write an event with it."""
    mark = Write(tree.batch(batch), replace(record, cancelled=True).encode(), version)
    return [mark, event] if event else [mark]


def close_steps(
    tree: JobTree, batch: str, record: BatchRecord, version: int, event: Create
) -> list[Step]:
    """Record in a batch that its end was seen, and write the event of it."""
    return [Write(tree.batch(batch), replace(record, to_close=False).encode(), version), event]


def cancel_pending_steps(tree: JobTree, pending: Found, now: float) -> list[Step]:
    """End a job that nobody claimed and that needs no cleanup."""
    job = replace(pending.job, cancelled=True)
    job = ended(job, Outcome.CANCELLED, now, job.reason)
    return [*_leave(tree, JobState.PENDING, pending), *arrive_steps(tree, pending.name, job)]


def discard_steps(
    tree: JobTree, state: JobState, junk: Junk, below: Iterable[str], job: Job
) -> list[Step]:
    """End a job whose record cannot be read, with another record.

    Args:
        below: the names of its children.
        job: how it ended.
    """
    path = tree.job(state, junk.name)
    strays = [Delete(f"{path}/{child}", ANY_VERSION) for child in below]
    return [*strays, Delete(path, junk.version), *arrive_steps(tree, junk.name, job)]


def tidy_steps(tree: JobTree, state: JobState, found: Found, below: Collection[str]) -> list[Step]:
    """Delete foreign children of a job, and make a missing fencing token: no move would succeed.

    Args:
        found: the job as it was read *after* its children.
        below: the names of its children. One that was there before the job was read as it is now
            is its fencing token, or foreign.
    """
    path, claims = tree.job(state, found.name), found.job.claims
    token = str(claims) if claims else ""
    strays: list[Step] = [Delete(f"{path}/{each}", ANY_VERSION) for each in below if each != token]
    if token and token not in below:
        return [Check(path, found.version), Create(f"{path}/{token}", b""), *strays]
    tokens = [Check(f"{path}/{token}")] if token else []
    return [Check(path, found.version), *tokens, *strays] if strays else []


def cancel_running_steps(tree: JobTree, claim: Claim) -> list[Step]:
    """Request that the claimant stops."""
    return _rewrite(tree, claim, replace(claim.job, cancelled=True))


def forget_moves(tree: JobTree, names: Iterable[JobName], batch: str = "") -> list[list[Step]]:
    """Delete done jobs one by one, and finally their batch if it is given."""
    paths = [tree.job(JobState.DONE, name) for name in names]
    return [
        [Delete(path, ANY_VERSION)] for path in [*paths, *([tree.batch(batch)] if batch else [])]
    ]


def together(moves: Iterable[Sequence[Step]]) -> Iterator[list[Sequence[Step]]]:
    """Yield these moves, as many at a time as fit into one transaction, at least one."""
    part: list[Sequence[Step]] = []
    left = TRANSACTION_LIMIT
    for move in moves:
        size = sum(map(_size_of, move))
        if part and size > left:
            yield part
            part, left = [], TRANSACTION_LIMIT
        part.append(move)
        left -= size
    if part:
        yield part


def _size_of(step: Step) -> int:
    data = step.data if isinstance(step, Create | Write) else b""
    return STEP_SIZE + len(step.path.encode()) + len(data)


def _leave(tree: JobTree, state: JobState, found: Found | Claim) -> list[Step]:
    name, job = found.name, found.job
    token = [Delete(tree.token(state, name, job), ANY_VERSION)] if job.claims else []
    return [*token, Delete(tree.job(state, name), found.version)]


def arrive_steps(tree: JobTree, name: JobName, job: Job) -> list[Step]:
    """Create a job in the place where it belongs, with its fencing token if it needs one."""
    state = place_of(job)
    has_token = job.claims and state is not JobState.DONE
    token = [Create(tree.token(state, name, job), b"")] if has_token else []
    return [Create(tree.job(state, name), job.encode()), *token]


def _rewrite(tree: JobTree, claim: Claim, job: Job) -> list[Step]:
    path = tree.job(JobState.RUNNING, claim.name)
    token = tree.token(JobState.RUNNING, claim.name, claim.job)
    return [Check(token), Write(path, job.encode(), claim.version)]
