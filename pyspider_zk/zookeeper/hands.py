"""The claims that a process has in hand."""

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from pyspider_zk.core.jobs import Claim, Claimant, Job, JobName


class Turn(NamedTuple):
    """One claim of one claimant on one job, the only one ever with these three."""

    claimant: str
    name: JobName
    claims: int

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """Return the turn of a claim."""
        return cls(claim.job.claimant, claim.name, claim.job.claims)

    @classmethod
    def next(cls, claimant: Claimant, name: JobName, pending: Job) -> Self:
        """Return the turn that a claimant begins if it claims a pending job."""
        return cls(claimant.path, name, pending.claims + 1)


class Hands:
    """Register of the claims that somebody in this process works on.

    It tells a claim that is worked on from one that we hold without knowing it, because the reply
    was lost or whoever took it never began. A claim is in hand from before it is asked for until
    after its job was parted with. So whoever sees it running, and finds that it was in hand at no
    time since the look began, may take it in hand: nobody else will.

    Threads: any; nothing blocks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Turn] = set()
        self._doubtful: set[Turn] = set()
        self._looks: list[set[Turn]] = []

    @contextmanager
    def looking(self) -> Iterator[Collection[Turn]]:
        """Give, while somebody looks at running jobs, all that was in hand since that began."""
        with self._lock:
            known = set(self._held)
            self._looks.append(known)
        try:
            yield known
        finally:
            with self._lock:
                self._looks = [look for look in self._looks if look is not known]

    def take(self, turn: Turn, known: Collection[Turn] = ()) -> bool:
        """Take a claim in hand, unless another thread has done so.

        Args:
            known: what ``looking`` gave, for a claim that was found running.
        """
        with self._lock:
            if turn in self._held or turn in known:
                return False
            self._held.add(turn)
            for look in self._looks:
                look.add(turn)
            return True

    def let_go(self, turn: Turn) -> None:
        """Forget a claim: its job was parted with, or is another's."""
        with self._lock:
            self._held.discard(turn)

    def doubt(self, turns: Iterable[Turn]) -> None:
        """Let go of claims that may be ours still: the next look shall find out."""
        turns = list(turns)
        with self._lock:
            self._held.difference_update(turns)
            self._doubtful.update(turns)

    def doubtful(self) -> frozenset[Turn]:
        """Return the claims of which nobody knows whether they are ours."""
        with self._lock:
            return frozenset(self._doubtful)

    def settle(self, turns: Iterable[Turn]) -> None:
        """Doubt these no more: a look that began later has found them, or not."""
        with self._lock:
            self._doubtful.difference_update(turns)

    def forget_the_gone(self, parent: str, standing: Collection[str]) -> None:
        """Forget the claims of claimants below a znode that stand there no more."""
        with self._lock:
            self._held = {
                turn
                for turn in self._held
                if turn.claimant in standing or Claimant(turn.claimant).parent != parent
            }
