"""Size of rounds: how many messages and tasks each one takes on. Pure."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

SHORT = 200
"""What a round takes on while others wait for it; it lasts some tens of milliseconds then.

Fewer per round cost more each: a round has a price of its own, for instance a wait for the disk.
"""

FEW = 0.02
"""The share of the messages that a slot with little to do has at most."""

FAR_FEWER = 0.25
"""The part of an equal share that one of those slots has at most.

Else they have as much to do as all others: with 40 slots an equal share is next to a few messages.
"""

TOGETHER = 0.2
"""The share that all of those slots have at most: if they have more, most of the work is theirs."""

ENOUGH = 1_000
"""How many messages tell which slots have little to do: of a few, one may have few by chance."""

HOLD = 1.0
"""Seconds for which rounds stay short: the next message of such a slot comes some time later."""


class RoundSize:
    """How many messages of a kind a round reads, and how many tasks it sends, at most.

    A large round costs less per message. But a message that comes while one runs waits for its
    end, and for all of the next. So rounds are short while slots with little to do are beside one
    with much to do. If all have much to do, short rounds would serve none of them sooner.

    Threads: the scheduler loop only.

    Args:
        most: returns the size of a large round.
        clock: in seconds.
    """

    def __init__(
        self, most: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._clock = clock
        self._short_until: float | None = None
        self._read: Counter[int] = Counter()  # messages by slot, not judged yet

    @property
    def limit(self) -> int:
        """The size of a round now. The first ones are short: who has much to do is not known."""
        now, most = self._clock(), self._most()
        if self._short_until is None:
            self._short_until = now + HOLD
        return min(most, SHORT) if now < self._short_until else most

    def note(self, counts: Mapping[int, int]) -> None:
        """Note how much a round has read of each slot."""
        if sum(counts.values()) < SHORT:
            return
        self._read.update(counts)
        if self._read.total() < ENOUGH:
            return
        if _is_little_beside_much(self._read.values()):
            self._short_until = self._clock() + HOLD
        self._read.clear()


def _is_little_beside_much(counts: Collection[int]) -> bool:
    """Return whether some slots have little to do, and most of the work is of others."""
    total = sum(counts)
    few = [count for count in counts if 0 < count <= total * FEW]
    if not few or sum(few) > total * TOGETHER:
        return False
    return min(few) <= total / len(counts) * FAR_FEWER
