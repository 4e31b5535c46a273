"""Rebalancing: which slots would move by the leader's rules, and how they are evened out once."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from threading import Event
from typing import NamedTuple

from pyspider_zk.cluster.cluster_settings import Maintenance, in_force, with_maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.placement import Rated
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Slot
from pyspider_zk.cluster.rules import Rules, Snapshot, Stamp, decide
from pyspider_zk.errors import Conflict, TimedOut
from pyspider_zk.groups.ids import MemberId, choose_number

NEWCOMER = "newcomer"  # the incarnation of a member that does not exist

WHOLE_TURN = 2  # renewals of the leader's lease, by its version: between them it has decided

_POLL = 0.3  # seconds between two looks at whether slots still move


class SlotMove(NamedTuple):
    """A slot that would change its owner."""

    slot: int
    source: MemberId | None
    target: MemberId | None


def preview(
    cluster: Cluster, projects: Mapping[int, int], joins: int = 0, leaves: Collection[int] = ()
) -> list[SlotMove]:
    """Return which slots would move: a dry run of all the leader's steps at once. Pure.

    Slots that are moving count as moved. All members count as alive. Rates are those that the
    leader goes by.

    Args:
        projects: active projects of the slots that have any.
        joins: how many new members there would be.
        leaves: numbers of the members that would drain.
    """
    members = _changed(cluster, joins, leaves)
    snapshot = Snapshot(
        _arrived(cluster.assignment),
        members,
        {member: Stamp(0, 0.0) for member in members},
        {},
        projects,
        now=0.0,
        settings=in_force(cluster.settings),
        rated=Rated(cluster.slot_rates),
    )
    decision = decide(snapshot, Rules(moves=cluster.meta.slots))
    if decision is None:
        return []
    rows = zip(snapshot.assignment.slots, decision.assignment.slots, strict=True)
    moves = (
        SlotMove(number, before.owner, after.next or after.owner)
        for number, (before, after) in enumerate(rows)
    )
    return [move for move in moves if move.target != move.source]


def without_maintenance(cluster: Cluster) -> Cluster:
    """Return the cluster as a rebalancing sees it."""
    return replace(cluster, settings=with_maintenance(cluster.settings, Maintenance.OFF))


def _changed(cluster: Cluster, joins: int, leaves: Collection[int]) -> dict[MemberId, Member]:
    members = {
        member: replace(record, draining=record.draining or member.number in leaves)
        for member, record in cluster.members.items()
    }
    for _ in range(joins):
        number = choose_number("", {}, {member.number for member in members})
        members[MemberId(number, NEWCOMER)] = Member("", "", 0, "", 0.0)
    return members


def _arrived(assignment: Assignment) -> Assignment:
    """Return the table with every release done."""
    rows = (Slot(row.next or row.owner, row.epoch) for row in assignment.slots)
    return Assignment(assignment.epoch, tuple(rows))


class Rebalancing:
    """One rebalancing, even if maintenance is on. The leader does it; this asks, and waits.

    Threads: one runs it, any may read ``left``.

    Args:
        orders: of whoever asked for it.
        read: reads the cluster.
        projects: active projects of the slots that have any.

    Attributes:
        left: how many slots had still to move when it last looked.
    """

    def __init__(
        self, orders: Orders, read: Callable[[], Cluster], projects: Mapping[int, int]
    ) -> None:
        self._orders = orders
        self._read = read
        self._projects = projects
        self._is_asked = False
        self._still: tuple[MemberId | None, int] | None = None
        self.left = 0

    def moves(self) -> list[SlotMove]:
        """Return which slots would move now, apart from those that do.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        return preview(without_maintenance(self._read()), self._projects)

    def run(self, timeout: float, ended: Event) -> None:
        """Let the slots be evened out; blocks for about ``timeout`` at most.

        If it fails, or is interrupted, maintenance goes on; if this process dies the leader goes
        on until nothing moves any more.

        Args:
            timeout: seconds.
            ended: once set, it waits no longer.

        Raises:
            TimedOut: slots still move, or it was ended before.
            Conflict: somebody ordered maintenance, or ended it, meanwhile.
            ClusterError: the cluster cannot be read or told.
        """
        try:
            self._is_asked = self._orders.rebalance().rebalance
            self._await_rest(timeout, ended)
        except BaseException:
            self._orders.end_rebalance()
            raise

    def _await_rest(self, timeout: float, ended: Event) -> None:
        deadline = time.monotonic() + timeout
        while not self._is_done():
            if ended.wait(_POLL):
                raise TimedOut("it was ended while slots still moved")
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"slots have still to move after {timeout:g} s: see `pyspider-zk status`"
                )
        self.left = 0  # by the leader, who knows better than the preview

    def _is_done(self) -> bool:
        """Return whether the leader has nothing to move, by what it does.

        The preview does not tell: the leader knows which projects are active by now, and spares the
        slots that it moved lately.
        """
        cluster = self._read()
        moving = sum(slot.next is not None for slot in cluster.assignment.slots)
        self.left = moving + len(preview(without_maintenance(cluster), self._projects))
        settings = cluster.settings
        if settings.rebalance:
            return False
        if settings.maintenance is Maintenance.OFF:
            return self._is_still(cluster)
        if self.left and not (self._is_asked and self._orders.is_rebalanced()):
            raise Conflict(f"maintenance goes on, {self.left} slots did not move: see the events")
        return True

    def _is_still(self, cluster: Cluster) -> bool:
        """Return whether nothing is to move, or nothing moved though the leader had a turn.

        One that is dead, or hangs, has none. It renews its lease before it decides, so only its
        second renewal tells that a turn was whole.
        """
        if _is_moving(cluster):
            self._still = None
            return False
        leader, versions = cluster.leader, cluster.renewals
        version = versions.get(leader, 0) if leader else 0
        if self._still is None or self._still[0] != leader:
            self._still = (leader, version)
        return not self.left or version - self._still[1] >= WHOLE_TURN


def _is_moving(cluster: Cluster) -> bool:
    """Return whether a slot moves, or waits until the lease of an owner that is gone has ended."""
    return any(
        row.next is not None or (row.owner is not None and row.owner not in cluster.members)
        for row in cluster.assignment.slots
    )
