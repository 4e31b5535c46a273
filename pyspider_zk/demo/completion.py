"""Completion of a crawl, as opposed to a pause or a stall. Pure: the time is an argument."""

from collections.abc import Hashable

QUIET = 3.0  # seconds with nothing ahead; what a process holds in its hands shows up by then
STALL = 60.0  # seconds without any change


class Completion:
    """Watches a crawl through what is seen of it from time to time.

    Args:
        now: the time of its start, in seconds; the same clock in all calls.
    """

    def __init__(self, now: float) -> None:
        self._seen: Hashable = None
        self._changed = now
        self._quiet: float | None = None

    def note(self, seen: Hashable, nothing_ahead: bool, now: float) -> None:
        """Take in what was seen.

        Args:
            seen: anything that changes as long as the crawl goes on.
            nothing_ahead: whether no work is known.
            now: the time of looking.
        """
        if seen != self._seen:
            self._seen, self._changed = seen, now
        if not nothing_ahead:
            self._quiet = None
        elif self._quiet is None:
            self._quiet = now

    def ended(self, now: float) -> bool:
        """Return whether no work was left for long enough, without any change."""
        return self._quiet is not None and now - self.last_change >= QUIET

    def stalled(self, now: float) -> bool:
        """Return whether nothing has changed for too long."""
        return now - self._changed >= STALL

    @property
    def last_change(self) -> float:
        """When something changed for the last time."""
        return max(self._changed, self._quiet or self._changed)
