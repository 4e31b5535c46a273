"""Claims that a process works on."""

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from pyspider_zk.jobs.model import Claim, Claimant, Job, JobName


class ClaimId(NamedTuple):
    """One claim of one claimant on one job, the only one ever with these three."""

    claimant: str
    name: JobName
    claims: int

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """Return the id of a claim."""
        return cls(claim.job.claimant, claim.name, claim.job.claims)

    @classmethod
    def next(cls, claimant: Claimant, name: JobName, pending: Job) -> Self:
        """Return the id of the claim that a claimant makes if it claims a pending job."""
        return cls(claimant.path, name, pending.claims + 1)


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
