"""Taking jobs: claiming pending ones, and giving back those of the dead."""

import logging
import threading
from collections.abc import Callable, Collection

from pyspider_zk.core.job_moves import claim_steps, return_steps
from pyspider_zk.core.job_rules import Concern, after_death, claimed, concern_of, is_due, place_of
from pyspider_zk.core.jobs import BatchRecord, Claim, Claimant, JobName, JobRules, JobState
from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.batches import Batches
from pyspider_zk.zookeeper.connection import Watch
from pyspider_zk.zookeeper.job_store import Found, JobStore

logger = logging.getLogger("pyspider_zk.jobs")

LOOKED_AT = 64  # pending jobs that are read in one go

Mine = Callable[[str], bool]
"""Whether jobs of a project may be taken by who asks."""


class Taking:
    """The way of jobs into claimants' hands; threads and errors as in ``JobQueue``.

    It remembers which claims it handed out, so that a claim whose reply was lost is known from
    one that somebody works on; and which it tried for without an answer, to look for them.
    """

    def __init__(
        self, store: JobStore, batches: Batches, rules: JobRules, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._batches = batches
        self._rules = rules
        self._clock = clock
        self._lock = threading.Lock()
        self._held: set[tuple[str, JobName, int]] = set()
        self._tried: set[JobName] = set()
        self._behind: dict[JobName, None] = {}
        self.on_change: Watch | None = None

    def take(self, claimant: Claimant, mine: Mine, room: int) -> list[Claim]:
        """Give back and claim jobs; see ``JobQueue.take``."""
        self._store.ensure()
        with self._lock:
            doubtful = frozenset(self._tried)
        claims = self._look_after_running(claimant, mine, doubtful)
        claims += self._claim_pending(claimant, mine, room - len(claims))
        with self._lock:
            self._tried -= doubtful.union(claim.name for claim in claims)
            self._held.update(map(_key, claims))
        return claims

    def let_go(self, claim: Claim) -> None:
        """Forget a claim that was handed out."""
        with self._lock:
            self._held.discard(_key(claim))

    def put_behind(self, name: JobName) -> None:
        """Take this job again only after all others."""
        with self._lock:
            self._behind.pop(name, None)
            self._behind[name] = None

    def _look_after_running(
        self, claimant: Claimant, mine: Mine, doubtful: Collection[JobName]
    ) -> list[Claim]:
        """Give back the jobs of the dead; return those that I hold without knowing it."""
        adopted = []
        for claim, concern in self._running(claimant, mine, doubtful):
            if concern is Concern.ADOPTED:
                adopted.append(claim)
            elif concern is Concern.ORPHAN and mine(claim.name.project):
                self._give_back_for(claim)
        return adopted

    def _running(
        self, claimant: Claimant, mine: Mine, doubtful: Collection[JobName]
    ) -> list[tuple[Claim, Concern]]:
        if doubtful:
            self._store.catch_up()
        names = self._store.names(JobState.RUNNING)
        wanted = [name for name in names if name in doubtful or mine(name.project)]
        claims = [Claim(*found) for found in self._store.read(JobState.RUNNING, wanted)]
        parents = {claimant.parent, *(Claimant(claim.job.claimant).parent for claim in claims)}
        standing = self._store.standing(parents, self.on_change)
        if claimant.path not in standing:
            self._require(claimant)
        with self._lock:
            held = frozenset(self._held)
        return [
            (claim, concern_of(claim, claimant, _key(claim) in held, standing)) for claim in claims
        ]

    def _give_back_for(self, claim: Claim) -> None:
        job = after_death(claim.job, self._clock(), self._rules)
        if self._store.do_if_current(return_steps(self._store.tree, claim, job)):
            logger.info("job %s is %s: its claimant is gone", claim.name, place_of(job))

    def _claim_pending(self, claimant: Claimant, mine: Mine, room: int) -> list[Claim]:
        names = self._store.names(JobState.PENDING, self.on_change)
        wanted = [name for name in self._in_turn(names) if mine(name.project)]
        claims: list[Claim] = []
        while wanted and len(claims) < room:
            part, wanted = wanted[:LOOKED_AT], wanted[LOOKED_AT:]
            claims += self._claim_some(claimant, part, room - len(claims))
        return claims

    def _in_turn(self, names: list[JobName]) -> list[JobName]:
        """Return pending jobs in the order to claim them: those put behind last."""
        there = set(names)
        with self._lock:
            self._behind = {name: None for name in self._behind if name in there}
            return [name for name in names if name not in self._behind] + list(self._behind)

    def _claim_some(self, claimant: Claimant, names: list[JobName], room: int) -> list[Claim]:
        now = self._clock()
        found = self._store.read(JobState.PENDING, names)
        due = [one for one in found if is_due(one.job, now)]
        batches = self._store.batches({one.name.group for one in due})
        claims: list[Claim] = []
        for one in due:
            if len(claims) == room:
                break
            claim = self._claim(claimant, one, batches.get(one.name.group))
            claims += [claim] if claim else []
        return claims

    def _claim(
        self, claimant: Claimant, found: Found, batch: tuple[BatchRecord, int] | None
    ) -> Claim | None:
        """Claim a job unless another was quicker, or it was cancelled with its batch."""
        cancelled = bool(batch and batch[0].cancelled)
        if cancelled and not found.job.untidy:
            self._batches.end_cancelled(found)
            return None
        with self._lock:
            self._tried.add(found.name)
        pending = (found.job, found.version)
        version = batch[1] if batch else None
        steps = claim_steps(self._store.tree, found.name, pending, claimant, version, cancelled)
        if self._store.do_if_current(steps):
            return Claim(found.name, claimed(found.job, claimant, cancelled), 0)
        with self._lock:
            self._tried.discard(found.name)
        self._require(claimant)
        return None

    def _require(self, claimant: Claimant) -> None:
        """Make sure that the claimant stands.

        Raises:
            SessionLost: it does not.
        """
        self._store.catch_up()
        if not self._store.stands(claimant.path):
            raise SessionLost(f"claimant {claimant.path} is gone")


def _key(claim: Claim) -> tuple[str, JobName, int]:
    return claim.job.claimant, claim.name, claim.job.claims
