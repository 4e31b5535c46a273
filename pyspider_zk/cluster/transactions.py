"""Transactions that change ownership, as lists of steps: all are done, or none.

Each checks the state that it was decided on, so a decision on an outdated state is refused.
"""

from collections.abc import Mapping
from dataclasses import replace

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.records import LeaseTerms, Load, Member, encode_acks
from pyspider_zk.cluster.rules import Decision, Stamp
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.steps import Check, Create, Delete, Step, Write


def join_steps(tree: Tree, member: MemberId, record: Member, load: Load) -> list[Step]:
    """Create a member's znodes; it owns nothing until slots are granted."""
    return [
        Create(tree.member(member), record.encode(), ephemeral=True),
        Create(tree.lease(member), load.encode()),
        Create(tree.ack(member), encode_acks({})),
    ]


def renew_steps(
    tree: Tree, member: MemberId, version: int, load: Load, released: Mapping[int, int]
) -> list[Step]:
    """Renew a lease, if the member is registered and its view of the assignment is current.

    Args:
        version: of the assignment that the member knows.
        load: of the member; its ``lease`` is how long the lease lasts.
        released: written again, because anybody may have overwritten it.
    """
    releases = acknowledge_steps(tree, member, released) if released else []
    return [
        Check(tree.member(member)),
        Check(tree.assignment, version),
        Write(tree.lease(member), load.encode()),
        *releases,
    ]


def acknowledge_steps(tree: Tree, member: MemberId, released: Mapping[int, int]) -> list[Step]:
    """Write for the leader which slots a member has given up, at which epochs."""
    return [Write(tree.ack(member), encode_acks(released))]


def drain_steps(tree: Tree, member: MemberId, record: Member) -> list[Step]:
    """Request that all slots of a member are moved away."""
    return [Write(tree.member(member), replace(record, draining=True).encode())]


def leave_steps(tree: Tree, member: MemberId, returns_within: float = 0.0) -> list[Step]:
    """Delete a member's lease, which frees its slots at once, and its other znodes.

    Its fence must have been closed for good before.

    Args:
        returns_within: seconds that its slots wait for its number to be back; the lease stays for
            so long, marked as left.
    """
    return [
        _end_of_lease(tree.lease(member), returns_within),
        Delete(tree.ack(member)),
        Delete(tree.member(member)),
    ]


def _end_of_lease(path: str, returns_within: float) -> Step:
    if not returns_within:
        return Delete(path)
    return Write(path, LeaseTerms(returns_within, left=True).encode())


def assign_steps(tree: Tree, candidacy: str, decision: Decision, version: int) -> list[Step]:
    """Write the assignment, if its writer still leads and the judged leases are unchanged.

    Args:
        candidacy: of the writer.
        version: of the assignment that was decided on; 0 is a version, too.
    """
    judged = (Check(tree.lease(member), lease) for member, lease in decision.checks.items())
    return [
        Check(tree.candidacy(candidacy)),
        *judged,
        Write(tree.assignment, decision.assignment.encode(), version),
    ]


def rebalanced_steps(
    tree: Tree, candidacy: str, after: ClusterSettings, version: int
) -> list[Step]:
    """Take back what the leader has done, if it still leads and the settings are as it read them.

    Args:
        after: the settings without that.
        version: of the settings that it read.
    """
    return [Check(tree.candidacy(candidacy)), Write(tree.settings, after.encode(), version)]


def depose_steps(tree: Tree, candidacy: str, member: MemberId, stamp: Stamp | None) -> list[Step]:
    """Delete a candidacy, unless its member has renewed its lease meanwhile.

    Args:
        stamp: of the lease that was judged; None if the member had none.
    """
    judged = [Check(tree.lease(member), stamp.version)] if stamp else []
    return [*judged, Delete(tree.candidacy(candidacy))]


def sweep_moves(tree: Tree, member: MemberId, version: int) -> list[list[Step]]:
    """Delete the leftovers of a member, one by one; either may be gone already.

    The lease comes last, because leftovers are found by it.

    Args:
        version: of the lease that was judged; one that was renewed since stays.
    """
    return [[Delete(tree.ack(member))], [Delete(tree.lease(member), version)]]
