"""Claims that a process works on, and the claimant's znode."""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from pyspider_zk.jobs.model import Claim, Claimant, JobName
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.ephemeral import Ephemeral


class ClaimId(NamedTuple):
    """Id of a claim of one claimant on one job; the three values are unique."""

    claimant: str
    name: JobName
    claims: int

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """Return the id of a claim."""
        return cls(claim.job.claimant, claim.name, claim.job.claims)


class ClaimRegister:
    """Register of the claims that somebody in this process works on.

    It distinguishes a claim that is worked on from one that we hold without knowing it, because the
    reply was lost or whoever took it never began. A claim is registered from before the request for
    it until after its job was given up. So a thread that sees a job running, and that its claim
    was not registered at any time since the look began, may take it: nobody else will.

    Threads: any; nothing blocks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[ClaimId] = set()
        self._doubtful: set[ClaimId] = set()
        self._looks: list[set[ClaimId]] = []
        self._behind: dict[JobName, None] = {}

    @contextmanager
    def looking(self) -> Iterator[Collection[ClaimId]]:
        """Yield, during a look at running jobs, the claims registered at any time since then."""
        with self._lock:
            known = set(self._held)
            self._looks.append(known)
        try:
            yield known
        finally:
            with self._lock:
                self._looks = [look for look in self._looks if look is not known]

    def take(self, claim_id: ClaimId, known: Collection[ClaimId] = ()) -> bool:
        """Register a claim, unless another thread has done so.

        Args:
            known: what ``looking`` yielded, for a claim that was found running.
        """
        with self._lock:
            if claim_id in self._held or claim_id in known:
                return False
            self._held.add(claim_id)
            for look in self._looks:
                look.add(claim_id)
            return True

    def let_go(self, claim_id: ClaimId) -> None:
        """Forget a claim: its job was given up, or is another claimant's."""
        with self._lock:
            self._held.discard(claim_id)

    def doubt(self, claim_ids: Iterable[ClaimId]) -> None:
        """Forget claims that may still be ours: the next look will find out."""
        claim_ids = list(claim_ids)
        with self._lock:
            self._held.difference_update(claim_ids)
            self._doubtful.update(claim_ids)

    def doubtful(self) -> frozenset[ClaimId]:
        """Return the claims that may be ours or not."""
        with self._lock:
            return frozenset(self._doubtful)

    def settle(self, claim_ids: Iterable[ClaimId]) -> None:
        """Stop doubting these: a look that began later has found them, or not."""
        with self._lock:
            self._doubtful.difference_update(claim_ids)

    def forget_the_gone(self, parent: str, standing: Collection[str]) -> None:
        """Forget the claims of claimants that no longer exist below a znode."""
        with self._lock:
            self._held = {
                claim_id
                for claim_id in self._held
                if claim_id.claimant in standing or Claimant(claim_id.claimant).parent != parent
            }

    def put_behind(self, name: JobName) -> None:
        """Let this job be claimed again only after all others."""
        with self._lock:
            self._behind.pop(name, None)
            self._behind[name] = None

    def in_turn(self, pending: Sequence[JobName]) -> list[JobName]:
        """Return all pending jobs in the order to claim them: those put behind last."""
        there = set(pending)
        with self._lock:
            self._behind = {name: None for name in self._behind if name in there}
            return [name for name in pending if name not in self._behind] + list(self._behind)


class Registration:
    """Registration of a process as a claimant of jobs, a new one in every session.

    A claimant is never created again: once its session has ended, others may have its jobs.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.

    Args:
        parent: the znode of the claimants of one queue.
    """

    def __init__(self, connection: Connection, parent: str) -> None:
        self._node = Ephemeral(connection, parent)

    def claimant(self) -> Claimant:
        """Return the claimant of the present session, registered.

        Raises:
            SessionLost: the session ended meanwhile; call again.
        """
        return Claimant(self._node.stand())

    def leave(self) -> None:
        """Give up all jobs of the claimant: others may have them at once."""
        self._node.leave()
