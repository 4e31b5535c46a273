"""Garbage collection of a process that makes tens of thousands of objects a second."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

RARELY = (400_000, 10, 50)
"""Python's thresholds are (700, 10, 10), so it would collect hundreds of times in a round. A full
round makes some 300,000 objects that Python counts, all in use until it ends."""

INTERVAL = 300.0
"""Seconds between two collections of all generations."""


@contextmanager
def collected_between_rounds(
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[], None]]:
    """Collect garbage between two rounds while the block runs, and never what is there now.

    Nearly everything that a round makes is freed by counting references, so a collection in its
    middle finds all of it in use.

    Args:
        clock: in seconds.

    Yields:
        A function to be called after each round, in one thread; it collects if it is time.
    """
    usual = gc.get_threshold()
    due = clock() + INTERVAL

    def collect_if_due() -> None:
        nonlocal due
        if clock() >= due:
            due = clock() + INTERVAL
            gc.collect()

    if usual == RARELY:  # another member of this process has seen to it, and restores what was
        yield collect_if_due
        return
    gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield collect_if_due
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
