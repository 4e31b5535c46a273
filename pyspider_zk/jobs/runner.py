"""Job runner: the thread that claims jobs for a member and reports their progress and outcomes."""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import BadMessage, JobLost, SessionLost, Unavailable, brief
from pyspider_zk.jobs.execution import JobWork
from pyspider_zk.jobs.local_jobs import LocalJobs
from pyspider_zk.jobs.model import Claim, Claimant, Outcome, Report
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.loop import Loop
from pyspider_zk.outage import Outage
from pyspider_zk.zookeeper.errors import OUTDATED

logger = logging.getLogger(__name__)

ROOM = 256
"""Jobs that a member works on at once: those of a batch over all its slots."""

HELD = 512
"""Jobs that it holds at once, including those that wait for something."""

REPORT = 1.0  # seconds between two reports of a job, and between looks while there are jobs
CANCEL = 5.0  # seconds until a job without news is reported too, to see whether it is cancelled
IDLE = 5.0  # seconds between looks without news: pauses after failures end silently
EMPTY = 60.0  # seconds between looks without any job: a watch tells of each that comes


class JobRunner:
    """Runner that moves jobs between the job queue and a member's local jobs.

    A job is given back when its slot moves away, and lost when the claimant is: the fence stops
    the loop in either case.

    Threads: one of its own talks to ZooKeeper. ``start`` and ``stop`` belong to the thread that
    owns the scheduler; ``wake`` may be called from any and never blocks.

    Args:
        claimant: returns the present claimant of the member, None while it is no member.
        wake_loop: called when jobs have arrived.
        on_parted: called when a job is no longer this member's, ended or given back.

    Attributes:
        works: the jobs that are this member's; the scheduling loop may not know of it yet.
    """

    def __init__(
        self,
        queue: JobQueue,
        local_jobs: LocalJobs,
        fence: Fence,
        claimant: Callable[[], Claimant | None],
        wake_loop: Callable[[], None],
        on_parted: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._local_jobs = local_jobs
        self._fence = fence
        self._claimant = claimant
        self._wake_loop = wake_loop
        self._on_parted = on_parted
        self.works: list[JobWork] = []
        self._outage = Outage(
            logger,
            "%s; jobs go on and are reported later",
            "ZooKeeper answers again: jobs are reported",
        )
        self._made_room = float("-inf")
        self._loop = Loop("jobs", self._turn)

    def start(self) -> None:
        """Begin to claim jobs."""
        self._local_jobs.call = self.wake
        self._queue.on_change(self._loop.wake)
        self._loop.start()

    def stop(self) -> None:
        """Give back all jobs; call it when the loop has stopped.

        Blocks for some seconds at most if ZooKeeper is silent; then others find the claimant gone.
        """
        self._loop.stop()
        for work in self.works:
            work.let_go()
        self._exchange()

    def wake(self) -> None:
        """Look for changes now."""
        self._loop.wake()

    def _turn(self) -> float:
        self._exchange()
        if self._outage.lasts:
            self._loop.rest(REPORT)  # the scheduling loop may wake us every round
            return 0.0
        if self.works:
            return REPORT
        return EMPTY if self._queue.is_empty else min(IDLE, self._queue.look_within)

    def _exchange(self) -> None:
        """Report progress and claim jobs; raises nothing."""
        try:
            self._look()
        except SessionLost as error:
            logger.info("jobs are lost: %s", error)
            self._lose(self.works)
        except Unavailable as error:
            self._outage.failed(error)
        except OUTDATED as error:
            self._outage.failed(Unavailable(f"no job can be moved ({type(error).__name__})"))
        except Exception:
            logger.exception("jobs wait")
        else:
            self._outage.answered()

    def _look(self) -> None:
        claimant = self._claimant()
        path = "" if claimant is None else claimant.path
        self._lose([each for each in self.works if each.claim.job.claimant != path])
        self._follow_cancellations()
        self._tell(self.works)
        if claimant is not None and not self._loop.ends and self._take(claimant):
            self._follow_cancellations()  # of batches that are new here

    def _take(self, claimant: Claimant) -> bool:
        """Claim jobs; return whether there were any."""
        claims = deque(self._queue.take(claimant, self._fence.epoch, max(0, self._room())))
        has_claimed = bool(claims)
        try:
            while claims:
                self._add(claims[0])
                claims.popleft()
        finally:
            self._queue.put_down(claims)
            self._wake_loop()
        return has_claimed

    def _add(self, claim: Claim) -> None:
        """Add a job to the local ones; one that cannot be added fails without blocking others."""
        try:
            self.works = [*self.works, self._local_jobs.add(claim)]
        except Exception as error:
            logger.exception("job %s cannot be begun", claim.name)
            self._part_with(claim, self._queue.give_back, claim.job.progress, brief(repr(error)))
        else:
            logger.info("job %s begins", claim.name)

    def _room(self) -> int:
        """Return how many more jobs may be held; those that only wait are not counted.

        If too many wait, the ones that waited longest give way. They come back after all others,
        and not too often: each time costs two writes.
        """
        works = self.works
        waiting = [work for work in works if work.waits]
        waiting.sort(key=lambda work: work.waits_since or 0.0)  # the loop may have gone on
        places, room = ROOM - len(works) + len(waiting), HELD - len(works)
        is_time = time.monotonic() - self._made_room >= CANCEL
        if room <= 0 < places and is_time:
            self._made_room = time.monotonic()
            for work in waiting[:places]:
                work.gives_way = True
        return min(places, room)

    def _tell(self, works: Sequence[JobWork]) -> None:
        """Write the progress of jobs to ZooKeeper, and their ends."""
        due = [(work, *_report_on(work)) for work in works if self._is_due(work)]
        results = self._queue.report_all([report for _, report, _ in due])
        for (work, report, changes), result in zip(due, results, strict=True):
            self._take_note(work, report, changes, result)
        if any(isinstance(result, Claim) for result in results):
            self._wake_loop()

    def _take_note(
        self, work: JobWork, report: Report, changes: int, result: Claim | Exception | None
    ) -> None:
        """Record what came of a report."""
        match result:
            case Claim():
                work.reported = time.monotonic()
                work.recorded(result, changes)
            case JobLost():
                logger.info("%s", result)
                self._lose([work])
            case Exception():
                logger.error("job %s cannot be reported: %s", work.name, result)
                self._give_up(work, brief(repr(result)))
            case None:
                outcome, reason = report.verdict or (None, "")
                logger.info("job %s is %s %s", work.name, outcome or "given back", reason)
                self._on_parted()
                self._lose([work])

    def _give_up(self, work: JobWork, reason: str) -> None:
        """End a job that cannot be reported otherwise, so that it does not block the others."""
        self._part_with(work.claim, self._queue.finish, Outcome.FAILED, {}, reason)
        self._lose([work])

    def _part_with(self, claim: Claim, give_up: Callable[..., None], *how: object) -> None:
        try:
            give_up(claim, *how)
        except JobLost as error:
            logger.info("%s", error)
        except BadMessage as error:
            self._queue.discard(claim, str(error))

    def _is_due(self, work: JobWork) -> bool:
        if work.is_urgent:
            return True
        return time.monotonic() - work.reported >= (REPORT if work.is_new else CANCEL)

    def _follow_cancellations(self) -> None:
        """Stop the jobs of batches that were cancelled; a watch tells as soon as one is."""
        groups = {work.name.group for work in self.works}
        cancelled = self._queue.cancelled(groups, self._loop.wake)
        stopped = [work for work in self.works if work.name.group in cancelled]
        for work in stopped:
            work.cancel()
        if stopped:
            self._wake_loop()

    def _lose(self, works: Collection[JobWork]) -> None:
        self.works = [work for work in self.works if work not in works]
        for work in works:
            self._local_jobs.clear(work)


def _report_on(work: JobWork) -> tuple[Report, int]:
    """Return what there is to report, and the number of changes that led to it."""
    verdict = work.verdict  # before the progress, which is complete once it is set
    progress, changes = work.progress()
    report = Report(work.claim, progress.as_dict(), work.needs_cleanup, verdict, work.gives_way)
    return report, changes
