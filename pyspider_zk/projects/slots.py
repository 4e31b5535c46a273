"""Slots: which one a project belongs to."""

from functools import lru_cache
from itertools import count
from zlib import crc32


@lru_cache(maxsize=100_000)
def slot_of(project: str, slots: int) -> int:
    """Return the slot of a project, the same in every process and forever.

    Python's ``hash()`` is no choice here: it differs from process to process.
    """
    return crc32(project.encode("utf-8")) % slots


def name_of(slot: int, slots: int) -> str:
    """Return a name that belongs to a slot, the same each time."""
    return next(name for name in map("_{}".format, count()) if slot_of(name, slots) == slot)
