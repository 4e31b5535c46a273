"""Rules of a lock: a queue of entries, each waiting for at most one other."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

_NUMBERS = 2**32  # ZooKeeper's sequence is a signed 32-bit number, which overflows to negative


class LockKind(StrEnum):
    """Kind of lock that an entry requests."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class LockEntry(NamedTuple):
    """A place in the queue; ``str`` gives the name of its znode.

    Attributes:
        guid: identifies it for its owner if the reply to its creation was lost.
        sequence: from ZooKeeper.
    """

    kind: LockKind
    guid: str
    sequence: int

    def __str__(self) -> str:
        return f"{prefix_of(self.kind, self.guid)}{self.sequence:010d}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a znode's name; the number may be negative.

        Raises:
            ValueError: it is not an entry's name.
        """
        kind, guid, sequence = name.split("-", 2)
        entry = cls(LockKind(kind), guid, int(sequence))
        if str(entry) != name:
            raise ValueError(name)
        return entry


def prefix_of(kind: LockKind, guid: str) -> str:
    """Return the name of an entry without the number that ZooKeeper appends."""
    return f"{kind}-{guid}-"


def read_line(names: Iterable[str]) -> tuple[list[LockEntry], list[str]]:
    """Return the entries among the names, and the other names."""
    entries, junk = [], []
    for name in names:
        try:
            entries.append(LockEntry.parse(name))
        except ValueError:
            junk.append(name)
    return entries, junk


def admission_of(entries: Iterable[LockEntry], guid: str) -> LockEntry | None:
    """Return the entry with that GUID, if it is there."""
    return next((entry for entry in entries if entry.guid == guid), None)


def line_of(entries: Sequence[LockEntry]) -> list[LockEntry]:
    """Return the entries in order of arrival.

    Numbers that overflowed come after those that did not: the entries of a queue are never two
    thousand million numbers apart.
    """
    if not entries:
        return []
    pivot = entries[0].sequence - _NUMBERS // 2
    return sorted(entries, key=lambda entry: (entry.sequence - pivot) % _NUMBERS)


def entry_before(entries: Sequence[LockEntry], mine: LockEntry) -> LockEntry | None:
    """Return the one entry to wait for, None if the lock is held.

    An exclusive entry waits for the one just before it. A shared one waits for the last exclusive
    one before it, so readers do not wait for readers, and no reader overtakes a writer.
    """
    line = line_of(entries)
    before = line[: line.index(mine)]
    if mine.kind is LockKind.SHARED:
        before = [entry for entry in before if entry.kind is LockKind.EXCLUSIVE]
    return before[-1] if before else None
