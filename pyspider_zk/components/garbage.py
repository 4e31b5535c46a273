"""Garbage collection of a process that makes tens of thousands of objects a second."""

import gc
import time
from collections.abc import Callable
from types import TracebackType

RARELY = (200_000, 10, 50)
"""Python's thresholds are (700, 10, 10), so it would collect hundreds of times in a round. A full
round makes up to 150,000 objects that Python counts, all in use until it ends."""

INTERVAL = 300.0
"""Seconds between two collections of all generations."""


class GarbageCollection:
    """Garbage collection between two rounds, while a ``with`` block runs; afterwards as before.

    Nearly everything that a round makes is freed by counting references, so a collection in its
    middle finds all of it in use. What is there when the block begins is never looked at.

    Threads: one.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = float("inf")
        self._usual = gc.get_threshold()

    def __enter__(self) -> "GarbageCollection":
        self._usual = gc.get_threshold()
        self._due = self._clock() + INTERVAL
        gc.freeze()
        gc.set_threshold(*RARELY)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gc.set_threshold(*self._usual)
        gc.unfreeze()

    def collect_if_due(self) -> None:
        """Collect what has gathered since the last time; for the end of a round."""
        if self._clock() >= self._due:
            self._due = self._clock() + INTERVAL
            gc.collect()
