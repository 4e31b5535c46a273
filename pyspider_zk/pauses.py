"""Back-off: the pause after each failure."""

from collections.abc import Sequence
from itertools import takewhile


def doubling(first: float, longest: float) -> tuple[float, ...]:
    """Return pauses that double, from the first to the longest, in seconds."""
    growing = takewhile(lambda pause: pause < longest, (first * 2**n for n in range(64)))
    return (*growing, longest)


def pause_after(failures: int, pauses: Sequence[float]) -> float:
    """Return the pause after that many failures in a row, one at least.

    The last pause is repeated.
    """
    return pauses[min(failures, len(pauses)) - 1]
