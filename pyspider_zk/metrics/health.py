"""Health: whether a component lives, and whether all that it needs works."""

import time
from collections.abc import Callable, Mapping


class Pulse:
    """Shows that a loop moves. Threads: one beats, any may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None

    def beat(self) -> None:
        """Show that the loop moves."""
        self._last = self._clock()

    @property
    def age(self) -> float:
        """Seconds since the last beat; 0 before the first: a start may wait for much."""
        return 0.0 if self._last is None else self._clock() - self._last


def patience(hang: float, time_limit: float) -> float:
    """Return how long a loop that runs scripts may stand still, in seconds.

    Args:
        hang: as the setting of that name.
        time_limit: of a script; 0: there is none.
    """
    return hang + time_limit if time_limit > 0 else float("inf")


class Health:
    """Health of one component. Threads: any; it does no I/O.

    Args:
        loop_age: returns the seconds since its loop moved last.
        limit: seconds after which a loop that did not move has stopped.
        parts: returns whether each part works that it needs, as far as it knows.
    """

    def __init__(
        self,
        loop_age: Callable[[], float],
        limit: float,
        parts: Callable[[], Mapping[str, bool]],
    ) -> None:
        self.loop_age = loop_age
        self._limit = limit
        self.parts = parts

    def alive(self) -> str:
        """Return what shows that the process must be restarted; empty: nothing."""
        return "the loop has stopped" if self.loop_age() > self._limit else ""

    def ready(self) -> str:
        """Return what keeps it from its work; empty: nothing."""
        away = [name for name, works in self.parts().items() if not works]
        return ", ".join(filter(None, [*away, self.alive()]))
