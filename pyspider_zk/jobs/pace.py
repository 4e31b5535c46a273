"""Pace: how many projects are carried out together."""

FIRST = 16
LARGEST = 128
"""Projects of a group at most: a transaction of them is short, whatever the database."""


class Pace:
    """How many projects fit into the time that is left of a round.

    After a group that failed half as many are tried, down to one, so that the culprit stands alone
    soon; after one that did not, twice as many. Threads: one.
    """

    def __init__(self) -> None:
        self._limit = FIRST
        self._each = 0.0  # seconds

    def most(self, left: float) -> int:
        """Return how many projects to carry out in so many seconds, at least one."""
        if left <= 0:
            return 1
        fitting = int(left / self._each) if self._each else LARGEST
        return max(1, min(self._limit, fitting))

    def succeeded(self, count: int, seconds: float) -> None:
        """Learn from a group that was carried out."""
        self._each = seconds / count
        self._limit = min(LARGEST, max(self._limit, 2 * count))

    def failed(self, count: int) -> None:
        """Learn from a group that failed."""
        self._limit = max(1, count // 2)
