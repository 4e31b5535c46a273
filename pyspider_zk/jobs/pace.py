"""Pace: how many projects are carried out together."""

FIRST = 32
LARGEST = 128
SMALLEST = 8
LONG = 0.5
"""Seconds that a chunk should not take: it holds up a round. Most of it is waiting for locks, which
is the same for few projects; so there is no point in smaller and smaller chunks."""


class Pace:
    """How many projects are carried out together, learned from the chunks before.

    After a chunk that failed half as many are tried, down to one, so that the culprit stands alone
    soon. After one that took long it is half as many, too, but not fewer than ``SMALLEST``; after a
    quick one twice as many. Threads: one.
    """

    def __init__(self) -> None:
        self._most = FIRST

    def most(self, left: float) -> int:
        """Return how many projects to carry out if so many seconds are left; at least one."""
        return self._most if left > 0 else 1

    def succeeded(self, count: int, seconds: float) -> None:
        """Learn from a chunk that was carried out."""
        if seconds > LONG:
            self._most = max(SMALLEST, min(self._most, count // 2))
        elif seconds < LONG / 2:
            self._most = min(LARGEST, max(self._most, 2 * count))

    def failed(self, count: int) -> None:
        """Learn from a chunk that failed."""
        self._most = max(1, count // 2)
