"""Repair of an unreadable assignment."""

from collections.abc import Iterable

from pyspider_zk.cluster.records import Assignment, Slot
from pyspider_zk.cluster.rules import Liveness, Rules, Stamp, standing_of


def repaired(
    known: tuple[Assignment, int] | None,
    slots: int,
    version: int,
    stamps: Iterable[Stamp],
    now: float,
    rules: Rules,
    first: int = 0,
) -> Assignment | None:
    """Return the table to replace an unreadable one, None as long as no table is safe.

    If the last readable table is known to be the last that was written, it continues: all
    open fences are in it. If it is not known, somebody may hold slots by a table that
    nobody remembers. But no lease can be renewed against a table that its member cannot read. So
    all leases come to their end, and then nobody holds anything. One of version 0 was never
    renewed: its fence was never open.

    An epoch grows by one at most with each write of the table, so none was ever higher than where
    they began and the table's version together, or than what is known.

    Args:
        known: the last table that could be read and the version up to which it is known to hold.
        version: of the table that cannot be read.
        stamps: of all leases, taken after that version was read.
        first: no epoch of the cluster began above it.
    """
    if known is not None and known[1] == version:
        return Assignment(known[0].epoch + 1, known[0].slots)
    may_hold = (stamp for stamp in stamps if stamp.version > 0)
    if any(standing_of(stamp, now, rules) is Liveness.ALIVE for stamp in may_hold):
        return None
    epochs = [known[0].epoch, *(slot.epoch for slot in known[0].slots)] if known else []
    epoch = max([first + version, *epochs]) + 1
    return Assignment(epoch, (Slot(epoch=epoch),) * slots)
