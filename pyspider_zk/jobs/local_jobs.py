"""Local jobs: the jobs that a member has claimed, for its scheduling loop to work on."""

import logging
import threading
import time
from collections.abc import Callable

from pyspider_zk.cluster.fence import Fence
from pyspider_zk.errors import DatabaseAway, FenceClosed, Unavailable, brief
from pyspider_zk.jobs.execution import JobWork
from pyspider_zk.jobs.model import Claim
from pyspider_zk.jobs.rules import is_at
from pyspider_zk.jobs.stages import Operations

logger = logging.getLogger(__name__)

SHARE = 0.1
"""Seconds of a round that jobs may take; crawling goes on in between."""


class LocalJobs:
    """The jobs that a member holds.

    Threads: the job thread calls ``add`` and ``clear``, the scheduling loop ``work``; both may
    look. No lock is held while a job is worked at.

    Args:
        share: see ``SHARE``; one project is always done.

    Attributes:
        call: called by the loop when the job thread should look here: a job has ended or must be
            reported before it can go on, or other slots are held. It must not block.
    """

    def __init__(
        self,
        operations: Operations,
        fence: Fence,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.call: Callable[[], None] = lambda: None
        self._operations = operations
        self._fence = fence
        self._share = share
        self._clock = clock
        self._lock = threading.Lock()
        self._works: list[JobWork] = []
        self._held: dict[int, int] = {}

    def add(self, claim: Claim) -> JobWork:
        """Add a claimed job."""
        work = JobWork(claim, self._operations, self._clock)
        with self._lock:
            self._works = sorted([*self._works, work], key=lambda each: each.name.rank)
        return work

    def clear(self, work: JobWork) -> None:
        """Remove a job that is another member's or has ended."""
        with self._lock:
            self._works = [each for each in self._works if each is not work]

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
            beat: called after each project, as a sign of life.

        Raises:
            FenceClosed: the lease ended, or a slot is lost.
            Unavailable: the message queue is away.
        """
        until = self._clock() + self._share
        try:
            in_turn = sorted(self._works, key=lambda work: work.waits)
            return any(self._work(work, until, beat) for work in in_turn)
        finally:
            if any(work.is_urgent for work in self._works):
                self.call()

    def _work(self, work: JobWork, until: float, beat: Callable[[], None]) -> bool:
        """Work on one job; return whether the time is over."""
        while work in self._works and self._is_current(work) and self._advance(work):
            beat()
            if self._clock() >= until:
                return True
        return False

    def _is_current(self, work: JobWork) -> bool:
        """Return whether its slot is still held at the epoch of its claim."""
        epoch = self._fence.held.get(self._fence.slot(work.name.project), 0)
        return is_at(work.claim.job, epoch)

    def _advance(self, work: JobWork) -> bool:
        """Do the next step of a job; a job that raises is given back, with one more failure.

        It must not end the scheduler: another would claim the job and end as well. A job that needs
        an unavailable database waits for it; the next job may need another database.
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
