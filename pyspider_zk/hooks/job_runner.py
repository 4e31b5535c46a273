"""The thread that claims jobs for a member and reports what became of them."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from pyspider_zk.core.jobs import Claim, Claimant, Outcome
from pyspider_zk.core.progress import brief
from pyspider_zk.errors import JobLost, SessionLost, Unavailable
from pyspider_zk.hooks.gate import Gate
from pyspider_zk.hooks.job_desk import JobDesk
from pyspider_zk.hooks.job_work import JobWork
from pyspider_zk.zookeeper.jobs import JobQueue

logger = logging.getLogger("pyspider_zk.jobs")

ROOM = 32
"""Jobs that a member has at work at once."""

HELD = 288
"""Jobs that it holds at once, those included that wait for something."""

REPORT = 1.0  # seconds between two reports of a job, and between looks while there are jobs
CANCEL = 5.0  # seconds until a job without news is reported too, to see whether it is cancelled
IDLE = 5.0  # seconds between looks without news: pauses after failures end silently


class JobRunner:
    """Moves jobs between the job queue and the desk of a member's scheduling loop.

    What a member holds is given back when its slot moves away, and lost when its claimant is: the
    gate stops the loop in either case.

    Threads: one of its own talks to ZooKeeper. ``start`` and ``stop`` belong to the thread that
    owns the scheduler; ``wake`` may be called from any and never blocks.

    Args:
        claimant: returns what the member claims as at this moment, None while it is no member.
        wake_loop: called when jobs have come.
        on_parted: called when a job is not this member's any more, ended or given back.
    """

    def __init__(
        self,
        queue: JobQueue,
        desk: JobDesk,
        gate: Gate,
        claimant: Callable[[], Claimant | None],
        wake_loop: Callable[[], None],
        on_parted: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._desk = desk
        self._gate = gate
        self._claimant = claimant
        self._wake_loop = wake_loop
        self._on_parted = on_parted
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._away = False
        self._made_room = float("-inf")
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to claim jobs."""
        self._desk.call = self.wake
        self._queue.on_change(self._on_event)
        self._thread.start()

    def stop(self) -> None:
        """Give back what is held; call it when the loop works no more.

        Blocks for some seconds at most if ZooKeeper is silent; then others find the claimant gone.
        """
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        for work in self._desk.works():
            work.let_go()
        self._turn()

    def wake(self) -> None:
        """Look for news now."""
        self._wake.set()

    def _on_event(self, _event: object) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._turn()
            if self._away:
                self._stopping.wait(REPORT)  # the loop may call every round
            else:
                self._wake.wait(REPORT if self._desk.works() else IDLE)
            self._wake.clear()

    def _turn(self) -> None:
        try:
            self._look()
        except SessionLost as error:
            logger.info("jobs are lost: %s", error)
            self._lose(self._desk.works())
        except Unavailable as error:
            self._say_away(error)
        except Exception:
            logger.exception("jobs wait")
        else:
            self._say_away(None)

    def _look(self) -> None:
        claimant = self._claimant()
        self._lose(
            [each for each in self._desk.works() if each.claim.job.claimant != _path(claimant)]
        )
        for work in self._desk.works():
            self._tell(work)
        if claimant is not None and not self._stopping.is_set():
            self._take(claimant)

    def _take(self, claimant: Claimant) -> None:
        claims = deque(self._queue.take(claimant, self._gate.epoch, max(0, self._room())))
        try:
            while claims:
                self._lay(claims[0])
                claims.popleft()
        finally:
            self._queue.put_down(claims)
            self._wake_loop()

    def _lay(self, claim: Claim) -> None:
        """Lay a job on the desk; one that cannot be laid has failed, and holds up no other."""
        try:
            self._desk.lay(claim)
        except Exception as error:
            logger.exception("job %s cannot be begun", claim.name)
            try:
                self._queue.give_back(claim, claim.job.progress, brief(repr(error)))
            except JobLost as lost:
                logger.info("%s", lost)
        else:
            logger.info("job %s begins", claim.name)

    def _room(self) -> int:
        """Return how many more jobs may be held; those that only wait take no places.

        If too many wait, the ones that waited longest give way. They come back after all others,
        and not too often: each time costs two writes.
        """
        works = self._desk.works()
        waiting = sorted((work for work in works if work.waits), key=_waits_since)
        places, room = ROOM - len(works) + len(waiting), HELD - len(works)
        is_time = time.monotonic() - self._made_room >= CANCEL
        if room <= 0 < places and is_time:
            self._made_room = time.monotonic()
            for work in waiting[:places]:
                work.gives_way = True
        return min(places, room)

    def _tell(self, work: JobWork) -> None:
        """Tell ZooKeeper what is new of a job."""
        try:
            if work.verdict is not None:
                self._part_with(work)
            elif self._is_due(work):
                self._report(work)
        except JobLost as error:
            logger.info("%s", error)
            self._lose([work])
        except (Unavailable, SessionLost):
            raise
        except Exception as error:
            logger.exception("job %s cannot be reported", work.name)
            self._give_up(work, brief(repr(error)))

    def _give_up(self, work: JobWork, reason: str) -> None:
        """End a job of which nothing else can be told; it holds up no other."""
        try:
            self._queue.finish(work.claim, Outcome.FAILED, {}, reason)
        except JobLost as error:
            logger.info("%s", error)
        self._lose([work])

    def _is_due(self, work: JobWork) -> bool:
        if work.is_urgent:
            return True
        return time.monotonic() - work.reported >= (REPORT if work.is_new else CANCEL)

    def _report(self, work: JobWork) -> None:
        progress, changes = work.progress()
        claim = self._queue.report(work.claim, progress.as_dict(), work.untidy)
        work.reported = time.monotonic()
        work.recorded(claim, changes)
        self._wake_loop()

    def _part_with(self, work: JobWork) -> None:
        verdict = work.verdict
        assert verdict is not None  # noqa: S101 - for mypy
        progress, _ = work.progress()
        if verdict.outcome is None:
            self._queue.give_back(
                work.claim, progress.as_dict(), verdict.reason, behind=work.gives_way
            )
            logger.info("job %s is given back %s", work.name, verdict.reason)
        else:
            self._queue.finish(work.claim, verdict.outcome, progress.as_dict(), verdict.reason)
            logger.info("job %s is %s", work.name, verdict.outcome)
        self._on_parted()
        self._desk.clear(work)

    def _lose(self, works: list[JobWork]) -> None:
        for work in works:
            self._desk.clear(work)

    def _say_away(self, error: Unavailable | None) -> None:
        """Log the loss of ZooKeeper and its return once each."""
        if error is not None and not self._away:
            logger.warning("%s; jobs go on and are reported later", error)
        elif error is None and self._away:
            logger.info("ZooKeeper answers again: jobs are reported")
        self._away = error is not None


def _waits_since(work: JobWork) -> float:
    return work.waits_since or 0.0  # the loop may have gone on meanwhile


def _path(claimant: Claimant | None) -> str:
    return "" if claimant is None else claimant.path
