"""Garbage collection of a process that makes tens of thousands of objects a second."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (20_000, 10, 50)
"""Python's thresholds are (700, 10, 10): each round would be collected dozens of times."""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Collect garbage once per round or so while the block runs, and never what is there now.

    Nearly everything that a round makes is freed by counting references; what it keeps, collection
    after collection finds in use.
    """
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
