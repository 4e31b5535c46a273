"""Claims that a process works on, and the znode in whose name it makes them."""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from pyspider_zk.jobs.model import Claim, Claimant, JobName
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.ephemeral import Ephemeral


class ClaimId(NamedTuple):
    """One claim of one claimant on one job, the only one ever with these three."""

    claimant: str
    name: JobName
    claims: int

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """Return the id of a claim."""
        return cls(claim.job.claimant, claim.name, claim.job.claims)


class ClaimRegister:
    """Register of the claims that somebody in this process works on.

    It tells a claim that is worked on from one that we hold without knowing it, because the reply
    was lost or whoever took it never began. A claim is in hand from before it is asked for until
    after its job was parted with. So whoever sees it running, and finds that it was in hand at no
    time since the look began, may take it in hand: nobody else will.

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
        """Give, while somebody looks at running jobs, all that was in hand since that began."""
        with self._lock:
            known = set(self._held)
            self._looks.append(known)
        try:
            yield known
        finally:
            with self._lock:
                self._looks = [look for look in self._looks if look is not known]

    def take(self, claim_id: ClaimId, known: Collection[ClaimId] = ()) -> bool:
        """Take a claim in hand, unless another thread has done so.

        Args:
            known: what ``looking`` gave, for a claim that was found running.
        """
        with self._lock:
            if claim_id in self._held or claim_id in known:
                return False
            self._held.add(claim_id)
            for look in self._looks:
                look.add(claim_id)
            return True

    def let_go(self, claim_id: ClaimId) -> None:
        """Forget a claim: its job was parted with, or is another's."""
        with self._lock:
            self._held.discard(claim_id)

    def doubt(self, claim_ids: Iterable[ClaimId]) -> None:
        """Let go of claims that may be ours still: the next look will find out."""
        claim_ids = list(claim_ids)
        with self._lock:
            self._held.difference_update(claim_ids)
            self._doubtful.update(claim_ids)

    def doubtful(self) -> frozenset[ClaimId]:
        """Return the claims of which nobody knows whether they are ours."""
        with self._lock:
            return frozenset(self._doubtful)

    def settle(self, claim_ids: Iterable[ClaimId]) -> None:
        """Doubt these no more: a look that began later has found them, or not."""
        with self._lock:
            self._doubtful.difference_update(claim_ids)

    def forget_the_gone(self, parent: str, standing: Collection[str]) -> None:
        """Forget the claims of claimants below a znode that stand there no more."""
        with self._lock:
            self._held = {
                claim_id
                for claim_id in self._held
                if claim_id.claimant in standing or Claimant(claim_id.claimant).parent != parent
            }

    def put_behind(self, name: JobName) -> None:
        """Have this job claimed again only after all others."""
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
    """Registers a process as a claimant of jobs, anew in every session.

    A claimant is never made again: when its session ended, others may have its jobs.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.

    Args:
        parent: the znode below which the claimants of one queue stand.
    """

    def __init__(self, connection: Connection, parent: str) -> None:
        self._node = Ephemeral(connection, parent)

    def claimant(self) -> Claimant:
        """Return the claimant of the present session, registered.

        Raises:
            SessionLost: the session ended meanwhile; ask again.
        """
        return Claimant(self._node.stand())

    def leave(self) -> None:
        """Give up all jobs of the claimant: others may have them at once."""
        self._node.leave()
