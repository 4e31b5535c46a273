"""Back-off: how long to wait after each failure."""

from collections.abc import Sequence
from itertools import takewhile


def doubling(first: float, longest: float) -> tuple[float, ...]:
    """Return pauses that double, from the first to the longest, in seconds."""
    growing = takewhile(lambda pause: pause < longest, (first * 2**n for n in range(64)))
    return (*growing, longest)


def pause_after(failures: int, pauses: Sequence[float]) -> float:
    """Return the pause after so many failures in a row, one at least.

    The last of the pauses serves again and again.
    """
    return pauses[min(failures, len(pauses)) - 1]
