"""Rules of ownership: who may do what with a slot, and when, so that no two members own one.

The member's side is the lease and the fence. A renewal that is sent at ``t0`` and succeeds proves
that the member's view of the assignment was current after ``t0``; its lease ends at ``t0 + lease``
on the member's clock. The fence closes ``budget`` seconds earlier, since an effect takes time too.

The leader's side is ``decide``. It gives away a slot only if its owner released it, left, or has
not renewed its lease for longer than that lease can last on any clock within the drift; how long
it lasts is part of the lease, because members may have different settings. It is a pure function
of the state in ZooKeeper and of the leader's stamps: a new leader just continues.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance
from pyspider_zk.cluster.placement import UNRATED, Rated, place
from pyspider_zk.cluster.records import TRANSITIONS, Assignment, Member, Phase, Slot, Trigger
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import LONGEST_LEASE


@dataclass(frozen=True)
class Rules:
    """Times, in seconds, and bounds of the protocol.

    Attributes:
        lease: how long a renewal lasts on the member's clock; ``LONGEST_LEASE`` at most.
        drift: how much faster the leader's clock may run than a member's, as a fraction.
        margin: additional time for the leader's own reading to be scheduled.
        budget: how long an effect may take that the fence allowed.
        moves: how many slots may be moving when one is taken from a member that could keep it.
            Those of a member that drains, is evicted, leaves or dies all move at once.
        await_members: how many eligible members the first grant of a new cluster waits for,
            so that the first member does not get everything only to release most of it.
    """

    lease: float = 4.0
    drift: float = 0.01
    margin: float = 0.2
    budget: float = 0.1
    moves: int = 64
    await_members: int = 1

    @property
    def open_for(self) -> float:
        """How long after the sending of a renewal the fence may be open."""
        return self.lease - self.budget

    @property
    def expiry(self) -> float:
        """Age at which a lease that was not renewed cannot be held by anybody."""
        return self.lease * (1 + self.drift) + self.margin

    def of(self, lease: float) -> "Rules":
        """Return the rules for judging a member with that lease; 0: the same as mine."""
        return self if lease in (0.0, self.lease) else replace(self, lease=lease)


def rules_of(own: Settings, shared: ClusterSettings) -> Rules:
    """Return the rules by which a member with these settings plays in the cluster."""
    return Rules(
        lease=min(own.lease, LONGEST_LEASE),
        budget=own.budget,
        moves=shared.moves,
        await_members=own.await_members,
    )


class Stamp(NamedTuple):
    """A lease version and when the leader first saw it, on the leader's clock.

    Attributes:
        lease: how long that lease lasts, as its member says; 0: as long as the leader's own.
    """

    version: int
    first_seen: float
    lease: float = 0.0


class Hold(NamedTuple):
    """Period in which a member's own lease holds without a gap, on its clock."""

    since: float = float("inf")
    until: float = float("-inf")


def later(stamps: Mapping[MemberId, Stamp], seconds: float) -> dict[MemberId, Stamp]:
    """Return the stamps as if all were taken later, by a time that does not count."""
    return {
        member: stamp._replace(first_seen=stamp.first_seen + seconds)
        for member, stamp in stamps.items()
    }


def observe(
    stamps: Mapping[MemberId, Stamp],
    versions: Mapping[MemberId, int],
    now: float,
    lengths: Mapping[MemberId, float],
) -> dict[MemberId, Stamp]:
    """Return the stamps after a reading of the leases: a version seen before keeps its time.

    A version has one length. If it cannot be read, and was not read before, it is the longest
    possible one: the member may have changed its lease since the version before.

    Args:
        lengths: how long each lease lasts; unreadable ones are missing, or 0.
    """
    return {
        member: _stamp(stamps.get(member), version, now, lengths.get(member, 0.0))
        for member, version in versions.items()
    }


def _stamp(known: Stamp | None, version: int, now: float, lengths: float) -> Stamp:
    same = known if known is not None and known.version == version else None
    length = lengths if lengths > 0 else (same.lease if same else 0.0)
    lease = min(length or LONGEST_LEASE, LONGEST_LEASE)
    return same._replace(lease=lease) if same else Stamp(version, now, lease)


class Liveness(StrEnum):
    """The leader's conclusion about a member from its lease."""

    ALIVE = "alive"
    DEAD = "dead"
    GONE = "gone"


def standing_of(stamp: Stamp | None, now: float, rules: Rules) -> Liveness:
    """Judge a member by its lease: no lease, one too old, or one that may still hold."""
    if stamp is None:
        return Liveness.GONE
    expiry = rules.of(stamp.lease).expiry
    return Liveness.DEAD if now - stamp.first_seen > expiry else Liveness.ALIVE


def is_suspect(stamp: Stamp | None, now: float) -> bool:
    """Return whether a lease was not renewed for more than half its length, or is gone."""
    return stamp is None or now - stamp.first_seen > stamp.lease / 2


def next_death(stamps: Iterable[Stamp], now: float, rules: Rules) -> float:
    """Return after which moment a lease is too old unless it is renewed; infinity without any."""
    moments = (stamp.first_seen + rules.of(stamp.lease).expiry for stamp in stamps)
    return min((moment for moment in moments if moment >= now), default=float("inf"))


@dataclass(frozen=True)
class Snapshot:
    """Everything that ``decide`` depends on.

    Attributes:
        members: those whose ephemeral node exists.
        stamps: the leases; a member without one has left: it closed its fence before it deleted
            its lease.
        acks: slots released, by member, with the epoch they were released at.
        projects: active projects of the slots that have any.
        now: the clock that the stamps were taken on.
        left: those who closed their fence for good and left their lease behind, because they may
            be back before it ends.
        settings: the cluster-wide ones.
        rated: what was measured, if slots are weighed by that.
    """

    assignment: Assignment
    members: Mapping[MemberId, Member]
    stamps: Mapping[MemberId, Stamp]
    acks: Mapping[MemberId, Mapping[int, int]]
    projects: Mapping[int, int]
    now: float
    left: Collection[MemberId] = frozenset()
    settings: ClusterSettings = ClusterSettings()  # noqa: RUF009 - immutable
    rated: Rated = UNRATED

    def standing(self, member: MemberId, rules: Rules) -> Liveness:
        """Judge a member by its lease alone; its ephemeral node proves nothing."""
        return standing_of(self.stamps.get(member), self.now, rules)

    def is_back(self, member: MemberId) -> bool:
        """Return whether one that left has joined again, as another incarnation, and has a lease.

        Between the two it can be given nothing, and its slots would go to others.
        """
        again = self.members.keys() & self.stamps.keys()
        return member in self.left and any(one.number == member.number for one in again)


@dataclass(frozen=True)
class Decision:
    """The next assignment, and what its write must check.

    Attributes:
        checks: lease versions of members that were judged dead and lose slots. Without this
            check one that comes back from a pause could renew between decision and write.
    """

    assignment: Assignment
    checks: Mapping[MemberId, int]


def decide(snapshot: Snapshot, rules: Rules) -> Decision | None:
    """Return the next assignment, or None if nothing should change."""
    table = snapshot.assignment.slots
    takers = eligible(snapshot, rules)
    is_new = snapshot.assignment.epoch == 0  # only as it was founded: each later write counts
    if not takers or (is_new and len(takers) < rules.await_members):
        return None
    freed = [_freed_by(number, slot, snapshot, rules) for number, slot in enumerate(table)]
    is_held = snapshot.settings.maintenance is Maintenance.HOLD
    heirs = _by_number(takers)
    keepers = _by_number(_standing(snapshot, rules)) if is_held else heirs
    settled = {number: _settled(slot, heirs, keepers) for number, slot in enumerate(table)}
    waiting = {
        number
        for number, slot in enumerate(table)
        if _waits(slot, freed[number], settled[number], snapshot)
    }
    kept = {number: to for number, to in settled.items() if to and to not in takers}
    placed = {
        number: to
        for number, to in settled.items()
        if number not in kept and (to or number not in waiting)
    }
    moves = _moves_left(table, snapshot.settings, rules)
    pins = snapshot.settings.pins
    targets = kept | place(placed, takers, snapshot.projects, moves, pins, snapshot.rated)
    rows = tuple(
        slot if number in waiting else _next_row(slot, freed[number], targets[number])
        for number, slot in enumerate(table)
    )
    if rows == table:
        return None
    losers = {old.owner for old, new in zip(table, rows, strict=True) if old.owner != new.owner}
    checks = {
        owner: snapshot.stamps[owner].version
        for owner in losers
        if owner and snapshot.standing(owner, rules) is Liveness.DEAD
    }
    return Decision(Assignment(snapshot.assignment.epoch + 1, rows), checks)


def _moves_left(table: Iterable[Slot], settings: ClusterSettings, rules: Rules) -> int:
    """Return how many slots may be taken from owners who could keep them."""
    if settings.maintenance is not Maintenance.OFF:
        return 0
    return max(0, rules.moves - sum(slot.next is not None for slot in table))


def eligible(snapshot: Snapshot, rules: Rules) -> set[MemberId]:
    """Return the members that may get slots.

    If all are evicted, none is: else nobody would serve the slots of one that dies.
    """
    standing = _standing(snapshot, rules)
    evicted = snapshot.settings.evicted
    return {member for member in standing if member.number not in evicted} or standing


def _standing(snapshot: Snapshot, rules: Rules) -> set[MemberId]:
    return {
        member
        for member, record in snapshot.members.items()
        if not record.draining and snapshot.standing(member, rules) is Liveness.ALIVE
    }


def _by_number(members: Iterable[MemberId]) -> dict[int, MemberId]:
    return {member.number: member for member in sorted(members)}


def is_settled(snapshot: Snapshot, rules: Rules) -> bool:
    """Return whether only a change of what was read, or a lease too old, can lead to a decision.

    That is when no slot moves, and the members are just those who hold a lease.
    """
    return (
        snapshot.members.keys() == snapshot.stamps.keys()
        and all(slot.next is None for slot in snapshot.assignment.slots)
        and all(snapshot.standing(each, rules) is Liveness.ALIVE for each in snapshot.members)
    )


def leftovers(snapshot: Snapshot, rules: Rules) -> dict[MemberId, int]:
    """Return the members whose lease and acks are no longer needed, with the lease's version.

    The deletion must check that version: without a lease, slots are free at once. A leader that
    read the lease long ago may not know that its member renewed since and was granted a slot.
    """
    owners = {slot.owner for slot in snapshot.assignment.slots}
    return {
        member: stamp.version
        for member, stamp in snapshot.stamps.items()
        if member not in snapshot.members
        and member not in owners
        and (member in snapshot.left or snapshot.standing(member, rules) is Liveness.DEAD)
    }


def _freed_by(number: int, slot: Slot, snapshot: Snapshot, rules: Rules) -> Trigger | None:
    """Return why nobody can hold the slot; None while its owner may hold it."""
    if slot.owner is None:
        return Trigger.PLACED
    if slot.next and snapshot.acks.get(slot.owner, {}).get(number) == slot.epoch:
        return Trigger.ACKNOWLEDGED
    if snapshot.is_back(slot.owner):
        return Trigger.LEFT
    return _ENDED[snapshot.standing(slot.owner, rules)]


_ENDED = {Liveness.ALIVE: None, Liveness.DEAD: Trigger.DIED, Liveness.GONE: Trigger.LEFT}


def _waits(slot: Slot, freed: Trigger | None, heir: MemberId | None, snapshot: Snapshot) -> bool:
    """Return whether a slot stays as it is, because its owner's number may be back.

    An owner whose ephemeral node is gone does not answer: nobody is named before its lease ended.
    On hold nobody else is named at all. What is to be given up, or was, waits for nothing.
    """
    if slot.phase is not Phase.OWNED:
        return False
    if freed is None and slot.owner not in snapshot.members:
        return True
    return heir is None and snapshot.settings.maintenance is Maintenance.HOLD


def _settled(
    slot: Slot, heirs: Mapping[int, MemberId], keepers: Mapping[int, MemberId]
) -> MemberId | None:
    """Return the member that has the slot or will get it: by number, whichever incarnation.

    Args:
        heirs: who may get a slot.
        keepers: who may keep one; on hold also those who are evicted, for nobody else gets it.
    """
    if slot.next:
        return heirs.get(slot.next.number)
    return keepers.get(slot.owner.number) if slot.owner else None


def _next_row(slot: Slot, freed: Trigger | None, target: MemberId) -> Slot:
    """Return the row after this decision.

    A release that was requested is never revoked: the owner may have done it already. If the
    next owner is gone, another is named.
    """
    if freed is None and target == slot.owner:
        return slot
    if TRANSITIONS[slot.phase, freed or Trigger.ASKED] is Phase.OWNED:
        return Slot(target, slot.epoch + 1)
    return slot._replace(next=target)


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


@dataclass(frozen=True)
class View:
    """What a member knows of its own ownership; immutable, so threads may share it.

    Attributes:
        owned: slots to serve, with their epochs.
        releasing: slots to give up, with their epochs.
        lease_until: the fence is closed from then on, on the member's clock.
    """

    owned: Mapping[int, int]
    releasing: Mapping[int, int]
    lease_until: float = float("-inf")

    def open(self, slot: int, epoch: int, now: float) -> bool:
        """Return whether an effect on a slot is allowed now."""
        held = self.owned.get(slot) == epoch or self.releasing.get(slot) == epoch
        return held and now < self.lease_until

    def renewed(self, until: float) -> "View":
        """Return the view after a renewal."""
        return replace(self, lease_until=until)


NOTHING = View({}, {})


def still_released(
    assignment: Assignment, member: MemberId, released: Mapping[int, int]
) -> dict[int, int]:
    """Return the releases to report: the requested ones, at the current epoch.

    A release that nobody requested is forgotten: the leader would never read it.
    """
    return dict(released.items() & assignment.releasing_by(member).items())


def view_of(
    assignment: Assignment, member: MemberId, released: Mapping[int, int], lease_until: float
) -> View:
    """Return what a member may serve: its rows of the assignment without what it released."""
    releasing = assignment.releasing_by(member).items() - released.items()
    return View(assignment.owned_by(member), dict(releasing), lease_until)
