"""Claiming pending jobs, and giving back those of the dead."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator

from pyspider_zk.errors import SessionLost
from pyspider_zk.jobs.batches import Batches
from pyspider_zk.jobs.claims import ClaimId, ClaimRegister
from pyspider_zk.jobs.model import BatchRecord, Claim, Claimant, JobName, JobRules, JobState
from pyspider_zk.jobs.rules import (
    Concern,
    after_death,
    claimed,
    concern_of,
    is_due,
    place_of,
)
from pyspider_zk.jobs.store import Found, JobStore
from pyspider_zk.jobs.transactions import claim_steps, return_steps
from pyspider_zk.zookeeper.connection import Watch
from pyspider_zk.zookeeper.steps import Step

logger = logging.getLogger("pyspider_zk.jobs")

LOOKED_AT = 64  # pending jobs that are read in one go

Mine = Callable[[str], int]
"""The slot epoch at which who asks may take a project's jobs, as their slot's epoch; 0: not at all.

Who has a higher one takes over the running jobs of who has a lower one. Where owners do not
change, ``True`` and ``False`` serve: then jobs are taken over from the dead only.
"""


class Claiming:
    """The way of jobs into claimants' hands; threads and errors as in ``JobQueue``.

    Several threads may take at once. Whatever ends a take, its claims are handed out or come
    back: those that it does not return are found by the next one.
    """

    def __init__(
        self, store: JobStore, batches: Batches, rules: JobRules, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._batches = batches
        self._rules = rules
        self._clock = clock
        self._hands = ClaimRegister()
        self._lock = threading.Lock()
        self._behind: dict[JobName, None] = {}
        self.on_change: Watch | None = None

    def take(self, claimant: Claimant, mine: Mine, room: int) -> list[Claim]:
        """Give back and claim jobs; see ``JobQueue.take``."""
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

    def let_go(self, claim: Claim) -> None:
        """Forget a claim that was handed out."""
        self._hands.let_go(ClaimId.of(claim))

    def put_down(self, claims: Iterable[Claim]) -> None:
        """Have claims that nobody began handed out again; see ``JobQueue.put_down``."""
        self._hands.doubt(map(ClaimId.of, claims))

    def put_behind(self, name: JobName) -> None:
        """Take this job again only after all others."""
        with self._lock:
            self._behind.pop(name, None)
            self._behind[name] = None

    def _adopt(
        self, claimant: Claimant, mine: Mine, doubtful: Collection[ClaimId]
    ) -> Iterator[Claim]:
        """Give back the jobs of the dead; yield those that I hold without knowing it."""
        with self._hands.looking() as known:
            for claim, concern in self._running(claimant, mine, doubtful, known):
                if concern is Concern.ADOPTED and self._hands.take(ClaimId.of(claim), known):
                    yield claim
                elif concern in (Concern.ORPHAN, Concern.OUTRUN):
                    self._give_back_for(claim, concern)

    def _running(
        self,
        claimant: Claimant,
        mine: Mine,
        doubtful: Collection[ClaimId],
        known: Collection[ClaimId],
    ) -> list[tuple[Claim, Concern]]:
        if doubtful:
            self._store.catch_up()
        in_doubt = {claim_id.name for claim_id in doubtful}
        names = self._store.names(JobState.RUNNING)
        slot_epochs = {name: int(mine(name.project)) for name in names}
        wanted = [name for name in names if slot_epochs[name] or name in in_doubt]
        claims = [Claim(*found) for found in self._store.read(JobState.RUNNING, wanted)]
        standing = self._standing(claimant, claims)
        return [
            (
                claim,
                concern_of(
                    claim,
                    claimant,
                    ClaimId.of(claim) in known,
                    standing,
                    slot_epochs[claim.name],
                ),
            )
            for claim in claims
        ]

    def _standing(self, claimant: Claimant, claims: Collection[Claim]) -> set[str]:
        """Return which claimants stand, mine among them."""
        holders = [Claimant(claim.job.claimant) for claim in claims]
        parents = {claimant.parent, *(each.parent for each in holders if each.is_path)}
        standing = self._store.standing(parents, self.on_change)
        if claimant.path not in standing:
            self._require(claimant)
            standing.add(claimant.path)
        self._hands.forget_the_gone(claimant.parent, standing)
        return standing

    def _give_back_for(self, claim: Claim, concern: Concern) -> None:
        job = after_death(claim.job, self._clock(), self._rules)
        steps = return_steps(self._store.tree, claim, job)
        if self._store.move_if_current(JobState.RUNNING, claim.name, steps):
            logger.info("job %s is %s: %s", claim.name, place_of(job), concern)

    def _claim_pending(self, claimant: Claimant, mine: Mine, room: int) -> Iterator[Claim]:
        names = self._store.names(JobState.PENDING, self.on_change)
        wanted = [name for name in self._in_turn(names) if mine(name.project)]
        while wanted and room > 0:
            part, wanted = wanted[:LOOKED_AT], wanted[LOOKED_AT:]
            for claim in self._claim_some(claimant, mine, part, room):
                yield claim
                room -= 1

    def _in_turn(self, names: list[JobName]) -> list[JobName]:
        """Return pending jobs in the order to claim them: those put behind last."""
        there = set(names)
        with self._lock:
            self._behind = {name: None for name in self._behind if name in there}
            return [name for name in names if name not in self._behind] + list(self._behind)

    def _claim_some(
        self, claimant: Claimant, mine: Mine, names: list[JobName], room: int
    ) -> Iterator[Claim]:
        now = self._clock()
        batches = self._store.batches({name.group for name in names})
        for one in self._store.read(JobState.PENDING, names):
            if room == 0:
                break
            if not is_due(one.job, now):
                continue
            slot_epoch = int(mine(one.name.project))
            claim = self._claim(claimant, slot_epoch, one, batches.get(one.name.group))
            if claim:
                yield claim
                room -= 1

    def _claim(
        self,
        claimant: Claimant,
        slot_epoch: int,
        found: Found,
        batch: tuple[BatchRecord, int] | None,
    ) -> Claim | None:
        """Claim a job unless another was quicker, or it was cancelled with its batch."""
        cancelled = bool(batch and batch[0].cancelled)
        if cancelled and not found.job.needs_cleanup:
            self._batches.end_cancelled(found)
            return None
        claim_id = ClaimId.next(claimant, found.name, found.job)
        if not slot_epoch or not self._hands.take(claim_id):
            return None
        job = claimed(found.job, claimant, slot_epoch, cancelled)
        version = batch[1] if batch else None
        steps = claim_steps(self._store.tree, found.name, (found.job, found.version), job, version)
        if self._ask_for(claim_id, steps):
            return Claim(found.name, job, 0)
        self._require(claimant)
        return None

    def _ask_for(self, claim_id: ClaimId, steps: list[Step]) -> bool:
        """Claim a job that is in hand already; who does not get it has it in hand no longer."""
        try:
            has_claimed = self._store.move_if_current(JobState.PENDING, claim_id.name, steps)
        except BaseException:
            self._hands.doubt([claim_id])
            raise
        if not has_claimed:
            self._hands.let_go(claim_id)
        return has_claimed

    def _require(self, claimant: Claimant) -> None:
        """Make sure that the claimant stands.

        Raises:
            SessionLost: it does not.
        """
        self._store.catch_up()
        if not self._store.stands(claimant.path):
            raise SessionLost(f"claimant {claimant.path} is gone")
