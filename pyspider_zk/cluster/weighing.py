"""Weighing: the leader's looks at the reported rates, and the znode that keeps what it goes by."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from pyspider_zk.cluster.cluster_settings import ClusterSettings, WeighBy
from pyspider_zk.cluster.placement import UNRATED, Rated
from pyspider_zk.cluster.reader import Found, Reader
from pyspider_zk.cluster.records import Assignment
from pyspider_zk.cluster.slot_rates import Rates, SlotRates, followed, moved_since
from pyspider_zk.cluster.transactions import weigh_steps
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection

logger = logging.getLogger(__name__)


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
    what anybody wrote there.

    That this znode cannot be used keeps no leader from its duty: it goes by what it knows.

    Threads: one thread calls the methods, which block and raise as a connection does.

    Attributes:
        due: when the next look is due, on the leader's clock.
    """

    def __init__(self, connection: Connection, tree: Tree, reader: Reader) -> None:
        self._connection = connection
        self._tree = tree
        self._reader = reader
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
            record = self._reader.value(path, self._connection.find(path), SlotRates.decode)
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
        rates = followed(former, then, assignment, self._reader.loads(leases))
        try:
            self._write(candidacy, SlotRates(rates))
        except Unavailable as error:  # a quota, for instance
            logger.warning("the next leader will not know what slots are weighed by: %s", error)
        return _Look(now, rates, assignment, _owners(assignment))

    def _write(self, candidacy: str, record: SlotRates) -> None:
        self._connection.ensure([self._tree.slot_rates], record.encode())
        self._connection.multi(*weigh_steps(self._tree, candidacy, record))


def _owners(assignment: Assignment) -> frozenset[MemberId]:
    return frozenset(slot.owner for slot in assignment.slots if slot.owner)
