"""The job queue: durable jobs with priorities, each in exactly one of three places."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from pyspider_zk.errors import BadMessage, JobLost, SessionLost, brief
from pyspider_zk.jobs.batches import Batches
from pyspider_zk.jobs.claims import ClaimId, ClaimRegister
from pyspider_zk.jobs.model import (
    MOVED_LIMIT,
    Claim,
    Claimant,
    Found,
    Job,
    JobName,
    JobRules,
    JobState,
    Outcome,
    Report,
    Verdict,
    check_size,
)
from pyspider_zk.jobs.rules import (
    Concern,
    after_death,
    after_failure,
    after_refusal,
    after_return,
    claimed,
    concern_of,
    ended,
    is_due,
    place_of,
)
from pyspider_zk.jobs.store import JobMove, JobStore, Versioned, parts
from pyspider_zk.jobs.transactions import (
    JobTree,
    cancel_pending_steps,
    claim_steps,
    finish_steps,
    report_steps,
    return_steps,
)
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.steps import Step

logger = logging.getLogger(__name__)

LOOKED_AT = 64  # pending jobs that are read at once
SHORT = 1000  # names of pending jobs that are listed for each ``take``
LISTED = 8000  # names that are listed a second if there are many more; 38,400 are 10 MB

Mine = Callable[[str], int]
"""Function of a project: the slot epoch at which the caller may claim its jobs; 0: not at all.

A claimant with a higher one takes over the running jobs of one with a lower one. Where owners do
not change, use ``True`` and ``False``: then jobs are taken over from dead claimants only.
"""


class _Pending(NamedTuple):
    """The pending jobs in turn, as they were listed, without those that are known to be gone.

    Attributes:
        until: when the list is too old, on the monotonic clock.
    """

    names: Sequence[JobName] = ()
    until: float = float("-inf")


class JobQueue(Batches):
    """Queue of jobs that outlive the processes that put them and that carry them out.

    A job may be carried out twice, because its claimant may die after the effect and before
    ``finish``; so its effects must be repeatable.

    Threads: all methods may be called from any. Each blocks for some seconds at most. All raise
    ``Unavailable`` if ZooKeeper does not answer; the request may have been carried out or not, and
    may be repeated.

    Attributes:
        is_empty: whether the last ``take`` found no job, pending or running: then ``on_change``
            tells of every job that comes.

    Args:
        root: the znode below which the queue is stored; nothing else may be stored there.
        clock: seconds since the epoch; clocks that differ only shorten or prolong the pauses
            after failures.
    """

    def __init__(
        self,
        connection: Connection,
        root: str,
        rules: JobRules = JobRules(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(JobStore(connection, JobTree(root)), rules, clock)
        self._hands = ClaimRegister()
        self._on_change: Watch | None = None
        self.is_empty = self._runs_none = False
        self._pending = _Pending()
        self._has_news = threading.Event()

    def names(self, state: JobState) -> list[JobName]:
        """Return the jobs in one place, the next one first."""
        return self._store.names(state)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """What is wrong with the znodes that this queue skipped, by path."""
        found = self._store.unreadable.mapping()
        return {path: why for path, why in found.items() if path.startswith(f"{self._tree.root}/")}

    def find(self, name: JobName, watch: Watch | None = None) -> tuple[JobState, Job] | None:
        """Return the place and the record of a job, None if there is none (any more).

        Args:
            watch: called once when it moves or is written; see ``Watch``.
        """
        for state in (*JobState, *JobState):  # twice: it may just have moved back
            found = self._store.find(state, name, watch)
            if found is not None:
                return state, found.job
        return None

    def on_change(self, callback: Watch) -> None:
        """Call back once after a ``take`` that had room, as soon as another may find more.

        That is when jobs were put or given back, or a claimant joined or left. A watch is only a
        hint, so also call ``take`` from time to time; pauses after failures end silently.
        """
        self._on_change = callback

    @property
    def look_within(self) -> float:
        """Seconds until another ``take`` finds what came; infinite if nothing came that is known.

        A long list of pending jobs serves for some seconds: each claim tells all who have listed.
        """
        left = self._pending.until - time.monotonic()
        return max(0.0, left) if self._has_news.is_set() else float("inf")

    def take(self, claimant: Claimant, mine: Mine, room: int) -> list[Claim]:
        """Claim jobs, after giving back those whose claimants are gone.

        Claims that got no reply before are found and returned first, even if there is no room for
        them. Whatever is raised, no claim is lost: the next call returns it.

        Args:
            claimant: only this queue object may claim in its name.
            mine: only jobs of such projects are claimed or given back. It returns whether, or the
                slot epoch, which grows whenever the project's owner changes. Then running jobs are
                also taken over from living claimants that claimed them at a lower one.
            room: how many jobs to return.

        Raises:
            SessionLost: the claimant's znode is gone.
        """
        self.is_empty = False
        self._store.ensure()
        doubtful = self._hands.doubtful()
        claims: list[Claim] = []
        try:
            for claim in self._adopt(claimant, mine, doubtful):
                claims.append(claim)
            for claim in self._claim_pending(claimant, mine, room - len(claims)):
                claims.append(claim)
        except BaseException:
            self.put_down(claims)
            raise
        self._hands.settle(doubtful)
        return claims

    def put_down(self, claims: Iterable[Claim]) -> None:
        """Report that nobody began these claims: the next ``take`` returns them again.

        Does not call ZooKeeper.
        """
        self._hands.doubt(map(ClaimId.of, claims))

    def report(
        self, claim: Claim, progress: Mapping[str, Any], needs_cleanup: bool = False
    ) -> Claim:
        """Report the progress of a job; return the claim to go on with.

        Stop if ``claim.job.cancelled`` of the returned claim is set.

        Args:
            progress: what the next claimant must know.
            needs_cleanup: something has begun that must be cleaned up. From now on the job comes
                back even if it is cancelled, until it is finished or its tries are used up.

        Raises:
            JobLost: the job is no longer the claimant's: stop.
            BadMessage: the progress is too large for a znode; ``finish`` and ``give_back`` raise
                it too.
        """
        return self._one(Report(claim, progress, needs_cleanup)) or claim

    def report_all(self, reports: Sequence[Report]) -> list[Claim | JobLost | BadMessage | None]:
        """Report on many jobs in few round trips: progress, ends, and jobs that are given back.

        Each is a transaction of its own, so none is held up by another's fault.

        Returns:
            In the same order: the claim to go on with; None: the job was given up; or the error
            that ``report``, ``finish`` or ``give_back`` would have raised.
        """
        results: list[Claim | JobLost | BadMessage | None] = [None] * len(reports)
        now = self._clock()
        trying = {place: report.claim for place, report in enumerate(reports)}
        while trying:
            jobs: dict[int, Job] = {}
            for place, claim in trying.items():
                try:
                    jobs[place] = self._reported(reports[place], claim.job, now)
                except BadMessage as error:
                    results[place] = error
            trying = self._tell(reports, {place: trying[place] for place in jobs}, jobs, results)
        return results

    def finish(
        self, claim: Claim, outcome: Outcome, progress: Mapping[str, Any], reason: str = ""
    ) -> None:
        """End a job, even if it was cancelled meanwhile.

        Raises:
            JobLost: the job is no longer the claimant's; it is carried out again.
        """
        self._one(Report(claim, progress, verdict=Verdict(outcome, reason)))

    def give_back(
        self, claim: Claim, progress: Mapping[str, Any], reason: str = "", *, behind: bool = False
    ) -> None:
        """Give a job back: it is pending again, or cancelled if that was requested.

        One that needs cleanup is pending again in any case; see ``report``.

        Args:
            reason: why it failed. Then it pauses, longer each time, and after the last try it is
                done and failed. Empty: it did not fail, and may be claimed at once.
            behind: it waits for something; this queue takes it again only after all others.

        Raises:
            JobLost: the job is no longer the claimant's.
        """
        self._one(Report(claim, progress, verdict=Verdict(None, reason), behind=behind))

    def discard(self, claim: Claim, reason: str) -> None:
        """End a job whose record has no room for how it ended; another one takes its place."""
        now = self._clock()
        job = ended(Job({}, now), Outcome.FAILED, now, brief(reason))
        steps = finish_steps(self._tree, claim, job)
        self._store.move_if_current(JobState.RUNNING, claim.name, steps)
        self._let_go(claim)  # if it was refused the next look finds it

    # --- reporting ---

    def _one(self, report: Report) -> Claim | None:
        (result,) = self.report_all([report])
        if isinstance(result, Exception):
            raise result
        return result

    def _reported(self, report: Report, job: Job, now: float) -> Job:
        """Return a job as it is after a report; raise ``BadMessage`` if it is too large."""
        verdict, reason = report.verdict, brief(report.verdict.reason) if report.verdict else ""
        job = replace(job, progress=dict(report.progress))
        if verdict is None:
            job = replace(job, needs_cleanup=job.needs_cleanup or report.needs_cleanup)
        elif verdict.outcome is not None:
            job = ended(job, verdict.outcome, now, reason)
        elif reason:
            job = after_failure(job, now, self._rules, reason)
        else:
            job = after_return(job, now)
        check_size(f"the progress of job {report.claim.name}", job, MOVED_LIMIT)
        return job

    def _tell(
        self,
        reports: Sequence[Report],
        claims: Mapping[int, Claim],
        jobs: Mapping[int, Job],
        results: list[Claim | JobLost | BadMessage | None],
    ) -> dict[int, Claim]:
        """Write these jobs, by place; note the results; return the claims to try again with."""
        moves = [
            JobMove(JobState.RUNNING, claim.name, self._steps(reports[place], claim, jobs[place]))
            for place, claim in claims.items()
        ]
        again: dict[int, Claim] = {}
        for place, has_moved in zip(claims, self._store.move_all(moves), strict=True):
            report, claim, job = reports[place], claims[place], jobs[place]
            if has_moved and report.verdict is None:
                results[place] = Claim(claim.name, job, claim.version + 1)
                continue
            try:
                newer = None if has_moved else self._after_refusal(report, claim, job)
            except JobLost as error:
                self._let_go(claim)
                results[place] = error
                continue
            if newer is not None:
                again[place] = newer
                continue
            self._let_go(claim)
            if report.behind:
                self._hands.put_behind(claim.name)
        return again

    def _steps(self, report: Report, claim: Claim, job: Job) -> list[Step]:
        if report.verdict is None:
            return report_steps(self._tree, claim, job)
        steps = return_steps if report.verdict.outcome is None else finish_steps
        return steps(self._tree, claim, job)

    def _after_refusal(self, report: Report, claim: Claim, wanted: Job) -> Claim | None:
        """Return the claim to try again with; None if the job was given up before."""
        arrived = self._store.find(place_of(wanted), claim.name) if report.verdict else None
        running = self._store.find(JobState.RUNNING, claim.name)
        return after_refusal(claim, wanted, arrived and arrived.job, running)

    # --- taking ---

    def _adopt(
        self, claimant: Claimant, mine: Mine, doubtful: Collection[ClaimId]
    ) -> Iterator[Claim]:
        """Give back the jobs of dead claimants; yield those that we hold without knowing it."""
        with self._hands.looking() as known:
            held = {claim_id.name for claim_id in known if claim_id.claimant == claimant.path}
            running = self._running(mine, doubtful, held)
            standing = self._standing(claimant, [claim for claim, _ in running])
            for claim, slot_epoch in running:
                is_held = ClaimId.of(claim) in known
                concern = concern_of(claim, claimant, is_held, standing, slot_epoch)
                if concern is Concern.ADOPTED and self._hands.take(ClaimId.of(claim), known):
                    yield claim
                elif concern in (Concern.ORPHAN, Concern.OUTRUN):
                    self._give_back_for(claim, concern)

    def _running(
        self, mine: Mine, doubtful: Collection[ClaimId], held: Collection[JobName]
    ) -> list[tuple[Claim, int]]:
        """Return the running jobs that may concern us, each with our slot epoch for it.

        Those that we hold are not read: if one is another's, the next report on it tells.
        """
        if doubtful:
            self._store.catch_up()
        in_doubt = {claim_id.name for claim_id in doubtful}
        names = self._store.names(JobState.RUNNING)
        self._runs_none = not names
        slot_epochs = {name: int(mine(name.project)) for name in names}
        wanted = [
            name for name in names if name in in_doubt or (slot_epochs[name] and name not in held)
        ]
        found = self._store.read(JobState.RUNNING, wanted)
        return [(Claim(*one), slot_epochs[one.name]) for one in found]

    def _standing(self, claimant: Claimant, claims: Collection[Claim]) -> set[str]:
        """Return which claimants exist, including our own."""
        holders = [Claimant(claim.job.claimant) for claim in claims]
        parents = {claimant.parent, *(each.parent for each in holders if each.is_path)}
        standing = self._store.standing(parents, self._on_change)
        if claimant.path not in standing:
            self._require(claimant)
            standing.add(claimant.path)
        self._hands.forget_the_gone(claimant.parent, standing)
        return standing

    def _give_back_for(self, claim: Claim, concern: Concern) -> None:
        job = after_death(claim.job, self._clock(), self._rules)
        steps = return_steps(self._tree, claim, job)
        if self._store.move_if_current(JobState.RUNNING, claim.name, steps):
            logger.info("job %s is %s: %s", claim.name, place_of(job), concern)

    def _claim_pending(self, claimant: Claimant, mine: Mine, room: int) -> Iterator[Claim]:
        if room <= 0:
            return
        pending, gone = self._listed(), set[JobName]()
        due = self._due([name for name in pending.names if mine(name.project)], gone)
        self._pending = _Pending()  # if it raises: nobody knows what is pending
        while some := list(islice(due, max(0, room))):
            gone.update(found.name for found, _ in some)
            for claim in self._claim_some(claimant, mine, some):
                room -= 1
                yield claim
        left = [name for name in pending.names if name not in gone]
        self._pending = pending._replace(names=left)

    def _listed(self) -> _Pending:
        """Return the pending jobs, listed now unless that was done not long ago."""
        if time.monotonic() < self._pending.until:
            return self._pending
        self._has_news.clear()
        names = self._store.names(JobState.PENDING, self._on_news)
        self.is_empty = self._runs_none and not names
        serves = max(0, len(names) - SHORT) / LISTED
        return _Pending(self._hands.in_turn(names), time.monotonic() + serves)

    def _on_news(self, event: object) -> None:
        self._has_news.set()
        if self._on_change is not None:
            self._on_change(event)

    def _due(
        self, names: Sequence[JobName], gone: set[JobName]
    ) -> Iterator[tuple[Found, Versioned | None]]:
        """Yield those of these jobs that may be claimed by now, with their batches.

        Args:
            gone: those are added that are pending no more.
        """
        for part in parts(names, LOOKED_AT):
            now = self._clock()
            batches = self._store.batches({name.group for name in part})
            there = list(self._store.read(JobState.PENDING, part))
            gone.update(set(part) - {found.name for found in there})
            for found in there:
                if is_due(found.job, now):
                    yield found, batches.get(found.name.group)

    def _claim_some(
        self,
        claimant: Claimant,
        mine: Mine,
        pending: Sequence[tuple[Found, Versioned | None]],
    ) -> list[Claim]:
        """Claim jobs in one round trip, but those that others claimed or cancelled meanwhile."""
        wanted: list[tuple[Claim, list[Step]]] = []
        try:
            for found, batch in pending:
                if (move := self._wanted(claimant, mine, found, batch)) is not None:
                    wanted.append(move)
            moves = [JobMove(JobState.PENDING, claim.name, steps) for claim, steps in wanted]
            has_claimed = self._store.move_all(moves)
            if not all(has_claimed):
                self._require(claimant)
        except BaseException:
            self.put_down(claim for claim, _ in wanted)
            raise
        for (claim, _), is_ours in zip(wanted, has_claimed, strict=True):
            if not is_ours:
                self._let_go(claim)
        return [claim for (claim, _), is_ours in zip(wanted, has_claimed, strict=True) if is_ours]

    def _wanted(
        self, claimant: Claimant, mine: Mine, found: Found, batch: Versioned | None
    ) -> tuple[Claim, list[Step]] | None:
        """Register a claim and return it with its steps; None if the job is not to be claimed."""
        record, version = batch or (None, None)
        cancelled = record is not None and record.cancelled
        if cancelled and not found.job.needs_cleanup:
            steps = cancel_pending_steps(self._tree, found, self._clock())
            self._store.move_if_current(JobState.PENDING, found.name, steps)
            return None
        slot_epoch = int(mine(found.name.project))
        job = claimed(found.job, claimant, slot_epoch, cancelled)
        claim = Claim(found.name, job, 0)
        if not slot_epoch or not self._hands.take(ClaimId.of(claim)):
            return None
        return claim, claim_steps(self._tree, found, job, version)

    def _require(self, claimant: Claimant) -> None:
        """Raise ``SessionLost`` unless the claimant exists."""
        self._store.catch_up()
        if not self._store.stands(claimant.path):
            raise SessionLost(f"claimant {claimant.path} is gone")

    def _let_go(self, claim: Claim) -> None:
        self._hands.let_go(ClaimId.of(claim))
