"""Weighing: the tasks per second by which the leader weighs slots, and how they follow reports.

Members measure, and report the rates of their busiest slots with each renewal. The leader looks at
the reports every some minutes, and writes what it goes by from then on into a znode. The next
leader reads that and continues, so a change of leader moves nothing.

A rate follows a report only if that is far enough from it: normal variation changes no weight. A
slot that was moved keeps its rate until its new owner has measured it for the whole time between
two looks, and so does one whose owner's report is missing or cannot be read.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from pyspider_zk.cluster.cluster_settings import ClusterSettings, WeighBy
from pyspider_zk.cluster.placement import UNRATED, Rated
from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.records import Assignment, Load, Slot
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Refused, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.zookeeper import codec
from pyspider_zk.zookeeper.codec import Record
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.steps import Check, Write
from pyspider_zk.zookeeper.unreadable import Found

logger = logging.getLogger(__name__)

STEP = 2
"""Tasks per second by which a rate must be wrong at least before it follows."""

SHARE = 0.25
"""And that share of the greater of both."""

MOST_RATE = 10**6
"""Tasks per second of a slot; whoever reports more is taken to mean this."""

Rates = Mapping[int, int]
"""Tasks per second, by slot; slots that are not in it have none worth mentioning."""


@dataclass(frozen=True)
class SlotRates(Record):
    """The znode with the rates that the leader goes by."""

    rates: Rates = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; ``BadMessage`` also if a rate cannot be."""
        found = codec.decode(cls, data)
        for slot, rate in found.rates.items():
            if not (0 <= slot < MOST_SLOTS and 0 <= rate <= MOST_RATE):
                raise BadMessage(f"slot {slot} cannot do {rate} tasks per second")
        return found


def moved_since(before: Assignment, now: Assignment) -> set[int]:
    """Return the slots that move or were granted since an assignment."""
    rows = enumerate(zip(before.slots, now.slots, strict=True))
    return {slot for slot, (then, row) in rows if row.next or row.epoch != then.epoch}


def followed(
    former: Rates, before: Assignment, now: Assignment, loads: Mapping[MemberId, Load]
) -> dict[int, int]:
    """Return the rates to go by after a look at the reports.

    Args:
        former: those gone by until now.
        before: the assignment at the look before.
        now: the assignment.
        loads: the reports that can be read.
    """
    unknown = moved_since(before, now)
    found = {
        slot: former.get(slot, 0) if slot in unknown else _followed(slot, former, row, loads)
        for slot, row in enumerate(now.slots)
    }
    return {slot: rate for slot, rate in found.items() if rate}


def _followed(slot: int, former: Rates, row: Slot, loads: Mapping[MemberId, Load]) -> int:
    known = former.get(slot, 0)
    load = loads.get(row.owner) if row.owner else None
    if load is None or load.slot_rates is None:
        return known
    found = min(max(load.slot_rates.get(slot, 0), 0), MOST_RATE)
    is_near = abs(known - found) <= STEP + SHARE * max(known, found)
    return known if is_near else found


class _Look(NamedTuple):
    """What the leader goes by since it looked last.

    Attributes:
        assignment: at that time; a slot that was moved since keeps its rate.
        settled: the members that have had slots ever since.
    """

    at: float
    rates: Rates
    assignment: Assignment
    settled: frozenset[MemberId]


class Weighing:
    """Keeper of the rates by which the leader weighs slots.

    It costs one read when a member begins to lead, and one write at each look, which also mends
    what anybody wrote there. That this znode cannot be used keeps no leader from its duty: it goes
    by what it knows.

    Threads: one thread calls the methods, which block and raise as a connection does.

    Attributes:
        due: when the next look is due, on the leader's clock.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._tree = tree
        self._reader = Reader(tree, connection.unreadable)
        self._look: _Look | None = None
        self.due = float("-inf")

    def forget(self) -> None:
        """Forget what was known, because another member may lead meanwhile."""
        self._look, self.due = None, float("-inf")

    def rated(
        self,
        candidacy: str,
        settings: ClusterSettings,
        assignment: Assignment,
        leases: Mapping[MemberId, Found],
        now: float,
    ) -> Rated:
        """Return the rates to go by; look at the reports if that is due.

        A new leader goes by what its predecessor wrote, and looks for itself one interval later;
        only if there is nothing readable it looks at once.

        Args:
            candidacy: of this leader; it must still stand when rates are written.
            leases: those that were read, with the reports.
        """
        if settings.weigh_by is WeighBy.PROJECTS:
            self._look = _Look(now, {}, assignment, frozenset())
            self.due = float("inf")
            return UNRATED
        look = self._look or self._continued(assignment, now)
        self.due = look.at + settings.weigh_every if look else now
        if look is None or now >= self.due:
            look = self._looked(candidacy, look, assignment, leases, now)
            self.due = now + settings.weigh_every
        self._look = look._replace(settled=look.settled & _owners(assignment))
        return Rated(look.rates, moved_since(look.assignment, assignment), self._look.settled)

    def _continued(self, assignment: Assignment, now: float) -> _Look | None:
        """Return what the former leader went by, None if that cannot be read."""
        path = self._tree.slot_rates
        try:
            record = self._connection.unreadable.decoded(
                path, self._connection.find(path), SlotRates.decode
            )
        except Refused as error:
            logger.warning("what slots were weighed by is not known: %s", error)
            return None
        return None if record is None else _Look(now, record.rates, assignment, _owners(assignment))

    def _looked(
        self,
        candidacy: str,
        before: _Look | None,
        assignment: Assignment,
        leases: Mapping[MemberId, Found],
        now: float,
    ) -> _Look:
        former, then = (before.rates, before.assignment) if before else ({}, assignment)
        loads = self._reader.values(self._tree.lease, leases, Load.decode)
        rates = followed(former, then, assignment, loads)
        try:
            self._write(candidacy, SlotRates(rates).encode())
        except Unavailable as error:  # a quota, for instance
            logger.warning("the next leader will not know what slots are weighed by: %s", error)
        return _Look(now, rates, assignment, _owners(assignment))

    def _write(self, candidacy: str, record: bytes) -> None:
        path = self._tree.slot_rates
        self._connection.ensure([path], record)
        self._connection.multi(Check(self._tree.candidacy(candidacy)), Write(path, record))


def _owners(assignment: Assignment) -> frozenset[MemberId]:
    return frozenset(slot.owner for slot in assignment.slots if slot.owner)
