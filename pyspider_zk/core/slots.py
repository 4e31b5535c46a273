"""Which slot a project belongs to."""

from zlib import crc32

DEFAULT_SLOTS = 256


def slot_of(project: str, slots: int) -> int:
    """Return the slot of a project, the same in every process and for ever.

    Python's ``hash()`` is no choice here: it differs from process to process.
    """
    return crc32(project.encode("utf-8")) % slots
