"""Preview of the slots that would move if members joined or left, by the leader's own rules."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from pyspider_zk.cluster.cluster_settings import Maintenance, in_force, with_maintenance
from pyspider_zk.cluster.placement import Rated
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Slot
from pyspider_zk.cluster.rules import Rules, Snapshot, Stamp, decide
from pyspider_zk.groups.ids import MemberId, choose_number

NEWCOMER = "newcomer"  # the incarnation of a member that does not exist


class SlotMove(NamedTuple):
    """A slot that would change its owner."""

    slot: int
    source: MemberId | None
    target: MemberId | None


def preview(
    cluster: Cluster, projects: Mapping[int, int], joins: int = 0, leaves: Collection[int] = ()
) -> list[SlotMove]:
    """Return which slots would move: a dry run of all the leader's steps at once.

    Slots that are moving count as moved. All members count as alive. Rates are those that the
    leader goes by.

    Args:
        projects: active projects of the slots that have any.
        joins: how many new members there would be.
        leaves: numbers of the members that would drain.
    """
    members = _changed(cluster, joins, leaves)
    alive = {member: Stamp(0, 0.0) for member in members}
    snapshot = Snapshot(
        *(_arrived(cluster.assignment), members, alive, {}, projects, 0.0),
        settings=in_force(cluster.settings),
        rated=Rated(cluster.slot_rates),
    )
    decision = decide(snapshot, Rules(moves=cluster.meta.slots))
    if decision is None:
        return []
    rows = zip(snapshot.assignment.slots, decision.assignment.slots, strict=True)
    return [
        SlotMove(number, before.owner, after.next or after.owner)
        for number, (before, after) in enumerate(rows)
        if (after.next or after.owner) != before.owner
    ]


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
