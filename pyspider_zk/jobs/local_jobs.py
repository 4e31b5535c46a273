"""Local jobs: the jobs that a member has claimed, for its scheduling loop to work on."""

import logging
import time
from bisect import insort
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import takewhile

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import DatabaseAway, FenceClosed, Unavailable, brief
from pyspider_zk.jobs.execution import JobWork, OperationRefused, ProjectTarget, Results, Stages
from pyspider_zk.jobs.model import Claim
from pyspider_zk.jobs.rules import is_at

logger = logging.getLogger(__name__)

SHARE = 0.1
"""Seconds of a round that jobs may take, one project in any case; crawling goes on in between."""

FIRST = 32  # projects that are carried out together
LARGEST = 128
SMALLEST = 8
LONG = 0.5
"""Seconds that a chunk should not take: it holds up a round. Most of it is waiting for locks, which
is the same for few projects; so there is no point in smaller and smaller chunks."""

Item = tuple[JobWork, ProjectTarget]
"""A project of a chunk, and the job that it is of."""


class Pace:
    """How many projects are carried out together, learned from the chunks before.

    After a chunk that failed half as many are tried, down to one, so that the culprit stands alone
    soon. After one that took long it is half as many, too, but not fewer than ``SMALLEST``; after a
    quick one twice as many. Threads: one.
    """

    def __init__(self) -> None:
        self._most = FIRST

    def most(self, left: float) -> int:
        """Return how many projects to carry out if so many seconds are left; at least one."""
        return self._most if left > 0 else 1

    def succeeded(self, count: int, seconds: float) -> None:
        """Learn from a chunk that was carried out."""
        if seconds > LONG:
            self._most = max(SMALLEST, min(self._most, count // 2))
        elif seconds < LONG / 2:
            self._most = min(LARGEST, max(self._most, 2 * count))

    def failed(self, count: int) -> None:
        """Learn from a chunk that failed."""
        self._most = max(1, count // 2)


class LocalJobs:
    """The jobs that a member holds.

    Threads: the job thread calls ``add`` and ``clear``, which take effect once the scheduling loop
    makes what is posted to it. Everything else is the loop's; others may ask how many there are.

    Projects that the same is to be done to are carried out in chunks, across jobs and batches: a
    transaction costs more than what is in it.

    Args:
        post: has a call made by the loop.

    Attributes:
        call: called by the loop when the job thread should look here: a job has ended or must be
            reported before it can go on, or other slots are held. It must not block.
    """

    def __init__(
        self,
        stages_of: Stages,
        fence: Fence,
        post: Callable[[Callable[[], object]], object],
    ) -> None:
        self.call: Callable[[], None] = lambda: None
        self._stages_of = stages_of
        self._fence = fence
        self._post = post
        self._share = SHARE
        self._clock = time.monotonic
        self._works: list[JobWork] = []
        self._held: dict[int, int] = {}
        self._pace = Pace()

    def add(self, claim: Claim) -> JobWork:
        """Add a claimed job."""
        work = JobWork(claim, self._stages_of, self._clock)
        self._post(partial(self._add, work))
        return work

    def clear(self, work: JobWork) -> None:
        """Remove a job that is another member's or has ended."""
        self._post(partial(self._works.remove, work))

    def _add(self, work: JobWork) -> None:
        insort(self._works, work, key=lambda each: each.name.rank)

    def works(self) -> list[JobWork]:
        """Return the jobs, the next one first."""
        return self._works

    def follow(self) -> None:
        """Stop the jobs of slots that are no longer held, or at another epoch."""
        for work in self._works:
            if not self._is_current(work):
                work.let_go()
        moved, self._held = self._held != self._fence.held, dict(self._fence.held)
        if moved:
            self.call()

    def work(self, beat: Callable[[], None]) -> bool:
        """Work for a share of a round; return whether more could be done at once.

        Waiting jobs come after those that can go on: checking them may take the whole share.

        Args:
            beat: called after each chunk of projects, as a sign of life.

        Raises:
            FenceClosed: the lease ended, or a slot is lost.
            Unavailable: the message queue is away.
        """
        until = self._clock() + self._share
        away: list[JobWork] = []
        try:
            while (chunk := self._next_chunk(until, away)) is not None:
                if chunk:
                    self._carry_out(chunk, away)
                beat()
                if self._clock() >= until:
                    return True
            return False
        finally:
            if any(work.is_urgent for work in self._works):
                self.call()

    def _next_chunk(self, until: float, away: Collection[JobWork]) -> list[Item] | None:
        """Return the next projects that can be carried out together, in the order of their jobs.

        Returns:
            None if there is nothing to do now; no project if the time is over before.
        """
        chunk: list[Item] = []
        most = self._pace.most(until - self._clock())
        for work in sorted(self._works, key=lambda work: work.waits):
            if work in away or not self._is_current(work):
                continue
            while self._advance(work):
                if self._clock() >= until:
                    return chunk
            if not _join(chunk, work, most):
                break
        return chunk or None

    def _carry_out(self, chunk: Sequence[Item], away: list[JobWork]) -> None:
        """Apply a stage to a chunk of projects; one that may be at fault is tried alone in the end.

        Jobs that need an unavailable database wait for it: the next may need another database.
        """
        began = self._clock()
        results = self._refused(chunk)
        targets = [target for _, target in chunk if target.project not in results]
        try:
            results |= chunk[0][0].stage.apply(targets) if targets else {}
        except DatabaseAway:
            away += [work for work, _ in chunk]
            return
        except (FenceClosed, Unavailable):
            raise
        except Exception as error:  # each database has its own errors
            self._pace.failed(len(targets))
            if len(targets) > 1:
                logger.info("%d projects are tried apart: %r", len(targets), error)
                return
            results[targets[0].project] = error
        else:
            self._pace.succeeded(len(chunk), self._clock() - began)
        for work, target in chunk:
            work.note(target, results[target.project])

    def _refused(self, chunk: Sequence[Item]) -> Results:
        """Return why projects of a chunk are refused: they are in another member's slot.

        Their job was written by hand, or for a cluster with another number of slots. The fence
        would stop their effects in every round, and with them everything that follows.
        """
        is_open = self._fence.is_open
        return {
            target.project: OperationRefused(
                "it is not in the slot of the job: request the operation again"
            )
            for work, target in chunk
            if is_open(work.name.project) and not is_open(target.project)
        }

    def _is_current(self, work: JobWork) -> bool:
        """Return whether its slot is still held at the epoch of its claim."""
        epoch = self._fence.held.get(self._fence.slot(work.name.project), 0)
        return is_at(work.claim.job, epoch)

    def _advance(self, work: JobWork) -> bool:
        """Do the next step of a job; a job that raises is given back, with one more failure.

        It must not end the scheduler: another would claim the job and end as well.
        """
        try:
            return work.advance()
        except DatabaseAway:
            return False
        except (FenceClosed, Unavailable):
            raise
        except Exception as error:
            logger.exception("job %s", work.name)
            work.let_go(brief(repr(error)))
            return False


def _join(chunk: list[Item], work: JobWork, most: int) -> bool:
    """Add a job's next projects to a chunk; return whether the next job may follow.

    No project is in a chunk twice: what the first job does to it, the second must meet.
    """
    targets = work.targets(most - len(chunk))
    if targets and chunk and work.kind != chunk[0][0].kind:
        return False
    there = {target.project for _, target in chunk}
    fresh = list(takewhile(lambda target: target.project not in there, targets))
    chunk += [(work, target) for target in fresh]
    return len(fresh) == len(targets) and len(chunk) < most
