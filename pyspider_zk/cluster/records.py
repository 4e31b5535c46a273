"""Records in ZooKeeper, as immutable values, parsed once at the edge. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.protocols import (
    CLOSED,
    FIRST,
    HIGHEST,
    SPOKEN,
    Protocols,
    highest_common,
    holding_back,
    refusal,
)
from pyspider_zk.errors import BadMessage, Mismatch, NotFound
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.zookeeper import codec
from pyspider_zk.zookeeper.codec import Record

MOST_EPOCH = 2**53


class ComponentKind(StrEnum):
    """The processes that register their presence but own no slots."""

    PROCESSOR = "processor"
    FETCHER = "fetcher"
    RESULT_WORKER = "result-worker"
    WEBUI = "webui"
    RENDERER = "renderer"


CONSUMING = (ComponentKind.FETCHER, ComponentKind.PROCESSOR, ComponentKind.RESULT_WORKER)
"""Those that take messages."""


@dataclass(frozen=True)
class Meta(Record):
    """What every process of a cluster must agree on.

    Attributes:
        protocol: the one in use.
        reopens: the one to go by again, while the cluster is closed.
    """

    slots: int
    protocol: int = HIGHEST
    reopens: int = FIRST

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; ``BadMessage`` also if no cluster has that many slots."""
        found = codec.decode(cls, data)
        if not 1 <= found.slots <= MOST_SLOTS:
            raise BadMessage(f"no cluster has {found.slots} slots")
        return found


@dataclass(frozen=True)
class Member(Record):
    """A scheduler that joined, as its znode describes it.

    Attributes:
        address: ``host:port`` of its XML-RPC, after ``https://`` if it uses TLS.
        started: seconds since the epoch.
        draining: its slots are moving away; it gets none.
        protocols: the lowest and the highest that it speaks.
    """

    address: str
    host: str
    pid: int
    version: str
    started: float
    name: str = ""
    draining: bool = False
    protocols: tuple[int, int] = (FIRST, FIRST)


@dataclass(frozen=True)
class Component(Record):
    """A processor, fetcher, result worker or web UI that registered its presence.

    Attributes:
        protocols: the lowest and the highest that it speaks.
        lost: what its predecessor was lost to, for a while; empty: nothing.
        consumer: the name under which it takes messages; empty: it takes none.
        tasks_per_s: tasks that it ended per second, lately.
        memory: bytes that its process has resident; 0: unknown.
        under_way: tasks that it has begun.
        oldest: project and id, or URL, of the one that it began first; empty: none.
        oldest_began: when it did, seconds since the epoch; 0: none.
    """

    host: str
    pid: int
    version: str
    started: float
    address: str = ""
    protocols: tuple[int, int] = (FIRST, FIRST)
    lost: str = ""
    consumer: str = ""
    tasks_per_s: float = 0.0
    memory: int = 0
    under_way: int = 0
    oldest: str = ""
    oldest_began: float = 0.0


@dataclass(frozen=True)
class Load(Record):
    """Load of a member, reported with each renewal of its lease.

    Attributes:
        projects: how many it has in memory.
        pending: how many tasks it has in memory.
        tasks_per_s: status packs that it applied per second, over the last seconds.
        cpu: share of one processor that its process used meanwhile.
        quarantined: how many of its projects are in quarantine.
        away: names of the databases that do not answer this member.
        lease: seconds that its lease lasts from the sending of a renewal; others judge the member
            by this. 0: unknown.
        slot_rates: tasks per second of its busiest slots, smoothed; its other slots have fewer.
            None: unknown.
        paused: how many of its projects rest, because their latest tasks have failed.
        paused_names: the names of some of these.
        broken: how many of its projects cannot start, for their scripts do not run.
        broken_names: the names of some of these.
        ended: tasks that ended for good in five minutes, as of a minute ago or less.
        failed: how many of these failed.
        failing_names: the names of projects to which most of these belong.
    """

    projects: int = 0
    pending: int = 0
    tasks_per_s: float = 0.0
    cpu: float = 0.0
    quarantined: int = 0
    away: tuple[str, ...] = ()
    lease: float = 0.0
    slot_rates: Mapping[int, int] | None = None
    paused: int = 0
    paused_names: tuple[str, ...] = ()
    broken: int = 0
    broken_names: tuple[str, ...] = ()
    ended: int = 0
    failed: int = 0
    failing_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeaseTerms(Record):
    """What a lease says to those who judge its member by it; the rest of it is the load.

    Attributes:
        lease: seconds that it lasts from its writing. 0: unknown.
        left: its member closed its fence for good, and left the lease behind because it may be
            back before it ends.
    """

    lease: float = 0.0
    left: bool = False


class Phase(StrEnum):
    """Phase of a slot between two owners."""

    VACANT = "vacant"
    OWNED = "owned"
    RELEASING = "releasing"


class Trigger(StrEnum):
    """The leader's conclusion about a slot; the values are the labels of the drawing."""

    PLACED = "a member is there: grant"
    ASKED = "another should have it: ask to release"
    ACKNOWLEDGED = "the owner has released it: grant"
    DIED = "the owner's lease is too old: grant"
    LEFT = "the owner's lease is gone: grant"


TRANSITIONS: Mapping[tuple[Phase, Trigger], Phase] = MappingProxyType(
    {
        (Phase.VACANT, Trigger.PLACED): Phase.OWNED,
        (Phase.OWNED, Trigger.ASKED): Phase.RELEASING,
        (Phase.OWNED, Trigger.DIED): Phase.OWNED,
        (Phase.OWNED, Trigger.LEFT): Phase.OWNED,
        (Phase.RELEASING, Trigger.ASKED): Phase.RELEASING,
        (Phase.RELEASING, Trigger.ACKNOWLEDGED): Phase.OWNED,
        (Phase.RELEASING, Trigger.DIED): Phase.OWNED,
        (Phase.RELEASING, Trigger.LEFT): Phase.OWNED,
    }
)
"""Phase and trigger to the next phase: complete, and the leader follows it; the drawing in
``docs/internals`` is made of it. Every way into OWNED is a grant, with the next epoch."""


class Slot(NamedTuple):
    """One row of the assignment.

    Attributes:
        owner: the member that schedules the slot's projects; None only before the first grant.
        epoch: grows by one with every grant.
        next: the member that gets the slot once the owner has released it; None while it stays.
    """

    owner: MemberId | None = None
    epoch: int = 0
    next: MemberId | None = None

    @property
    def phase(self) -> Phase:
        """Derive the phase from owner and next owner."""
        if self.owner is None:
            return Phase.VACANT
        return Phase.OWNED if self.next is None else Phase.RELEASING


@dataclass(frozen=True)
class Assignment:
    """Which member owns which slot.

    Attributes:
        epoch: grows by one with every write of the table.
        slots: the rows, by slot number.
    """

    epoch: int
    slots: tuple[Slot, ...]

    @classmethod
    def vacant(cls, slots: int, epoch: int = 0) -> Self:
        """Return the table of a new cluster, whose slots are granted above an epoch."""
        return cls(0, (Slot(epoch=epoch),) * slots)

    def owned_by(self, member: MemberId) -> dict[int, int]:
        """Return the slots that a member must serve, with their epochs."""
        return {
            number: slot.epoch
            for number, slot in enumerate(self.slots)
            if slot.owner == member and slot.next is None
        }

    def releasing_by(self, member: MemberId) -> dict[int, int]:
        """Return the slots that a member must give up, with their epochs."""
        return {
            number: slot.epoch
            for number, slot in enumerate(self.slots)
            if slot.owner == member and slot.next is not None
        }

    def encode(self) -> bytes:
        """Return the bytes for the znode: names once, rows of numbers, far below 1 MiB."""
        names = sorted({name for slot in self.slots for name in (slot.owner, slot.next) if name})
        index: dict[MemberId | None, int] = {name: place for place, name in enumerate(names)}
        index[None] = -1
        rows = [[index[slot.owner], slot.epoch, index[slot.next]] for slot in self.slots]
        table = {"epoch": self.epoch, "members": [str(name) for name in names], "slots": rows}
        return codec.plain(table)

    @classmethod
    def decode(cls, data: bytes, slots: int | None = None) -> Self:
        """Read the bytes of the znode.

        Args:
            slots: how many rows it must have; None: any number that a cluster may have.

        Raises:
            BadMessage: they are not a table, or one of another cluster.
        """
        table = codec.decode(_Table, data)
        names = [*map(MemberId.parse, table.members), None]
        for number, row in enumerate(table.slots):
            _check_row(number, row, len(table.members))
        rows = tuple(Slot(names[owner], epoch, names[after]) for owner, epoch, after in table.slots)
        if not 0 <= table.epoch <= MOST_EPOCH:
            raise BadMessage(f"epoch {table.epoch} of the assignment is none")
        if len(rows) != (len(rows) if slots is None else slots) or len(rows) > MOST_SLOTS:
            raise BadMessage(f"the assignment has {len(rows)} slots, not {slots or MOST_SLOTS}")
        return cls(table.epoch, rows)


@dataclass(frozen=True)
class _Table:
    """An assignment's znode: names once, rows of owner, epoch and next owner; -1 is nobody."""

    epoch: int
    members: list[str]
    slots: list[tuple[int, int, int]]


def _check_row(number: int, row: tuple[int, int, int], names: int) -> None:
    owner, epoch, after = row
    is_known = -1 <= owner < names and -1 <= after < names
    if not is_known or not 0 <= epoch <= MOST_EPOCH or (owner == -1 and after != -1):
        raise BadMessage(f"slot {number} of the assignment cannot be {list(row)}")


def decode_terms(data: bytes) -> LeaseTerms:
    """Read the terms of a lease; if its load is junk, what it says of itself is none the better.

    Raises:
        BadMessage: one of both cannot be read.
    """
    Load.decode(data)
    return LeaseTerms.decode(data)


def terms_of(data: bytes) -> LeaseTerms:
    """Return the terms of a lease; of one that cannot be read nothing is known."""
    try:
        return decode_terms(data)
    except BadMessage:
        return LeaseTerms()


def encode_acks(acks: Mapping[int, int]) -> bytes:
    """Return the bytes for a member's releases, slot to epoch."""
    return codec.plain(acks)


def decode_acks(data: bytes) -> dict[int, int]:
    """Read a member's releases, slot to epoch.

    Raises:
        BadMessage: they are none.
    """
    return codec.decode(dict[int, int], data or b"{}")


def decode_scale(data: bytes) -> int:
    """Read the number of schedulers that was requested.

    Raises:
        BadMessage: it is none.
    """
    number = codec.decode(int, data)
    if not 0 <= number <= MOST_SLOTS:  # more have no slot to own
        raise BadMessage(f"nobody can run {number} schedulers")
    return number


@dataclass(frozen=True)
class Cluster:
    """Everything in ZooKeeper about a cluster at one moment (almost).

    Attributes:
        renewals: the version of each member's lease, which grows by one with every renewal.
        unreadable: the reason for each skipped znode, by path.
        settings: the cluster-wide ones.
        slot_rates: tasks per second by which the leader weighs slots; none if it does not.
    """

    meta: Meta
    assignment: Assignment
    leader: MemberId | None = None
    members: Mapping[MemberId, Member] = field(default_factory=dict)
    loads: Mapping[MemberId, Load] = field(default_factory=dict)
    components: Mapping[ComponentKind, Mapping[str, Component]] = field(default_factory=dict)
    renewals: Mapping[MemberId, int] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    settings: ClusterSettings = ClusterSettings()  # noqa: RUF009 - immutable
    slot_rates: Mapping[int, int] = field(default_factory=dict)

    def numbered(self, number: int) -> tuple[MemberId, Member]:
        """Return the running member of a number.

        Raises:
            NotFound: there is none.
        """
        for member, record in self.members.items():
            if member.number == number:
                return member, record
        raise NotFound(f"no member {number} runs")

    def slot_counts(self) -> dict[MemberId, int]:
        """Return how many slots each owner has, including owners that have left."""
        counts = dict.fromkeys(self.members, 0)
        for slot in self.assignment.slots:
            if slot.owner is not None:
                counts[slot.owner] = counts.get(slot.owner, 0) + 1
        return counts

    def load(self, member: MemberId) -> Load:
        """Return the load that a member reported; an empty one before its first report."""
        return self.loads.get(member, Load())

    def owner(self, slot: int) -> MemberId | None:
        """Return the running member that has a slot, if there is one at the moment."""
        owner = self.assignment.slots[slot].owner
        return owner if owner in self.members else None

    def lease_of(self, member: MemberId, default: float) -> float:
        """Return how long a member's lease lasts, in seconds; the default if it is unknown."""
        load = self.loads.get(member)
        return load.lease if load is not None and load.lease > 0 else default

    def owner_of(self, project: str) -> Member | None:
        """Return the running member that schedules a project, if there is one at the moment."""
        owner = self.owner(slot_of(project, self.meta.slots))
        return self.members[owner] if owner else None

    def protocols(self) -> dict[str, Protocols]:
        """Return what those speak who run and can be read."""
        found = {f"member {each.number}": its.protocols for each, its in self.members.items()}
        for kind, components in self.components.items():
            found |= {
                f"{kind} on {its.host}, pid {its.pid}": its.protocols for its in components.values()
            }
        return found

    @property
    def next_protocol(self) -> int:
        """The highest protocol that somebody who runs speaks; at least the one in use."""
        return max([self.meta.protocol, *(highest for _, highest in self.protocols().values())])

    @property
    def can_be_raised(self) -> bool:
        """Whether all who run speak a higher protocol than the one in use."""
        return highest_common(self.meta.protocol, self.protocols()) > self.meta.protocol

    def held_back_by(self) -> list[str]:
        """Return those who do not speak the highest protocol that others do."""
        return holding_back(self.next_protocol, self.protocols())

    def as_dict(self) -> dict[str, Any]:
        """Return the form that ``status --json`` prints."""
        counts = self.slot_counts()
        return {
            "epoch": self.assignment.epoch,
            "slots": self.meta.slots,
            "protocol": self.meta.protocol,
            "can_be_raised": self.can_be_raised,
            "held_back_by": self.held_back_by(),
            "leader": self.leader.number if self.leader else None,
            "members": [
                {
                    "number": member.number,
                    "incarnation": member.incarnation,
                    **asdict(record),
                    "slots": counts.get(member, 0),
                    **asdict(self.load(member)),
                    "leader": member == self.leader,
                }
                for member, record in sorted(self.members.items())
            ],
            "unserved_slots": sum(
                1 for slot in self.assignment.slots if slot.owner not in self.members
            ),
            "components": {
                kind.value: [
                    {"id": name, **asdict(record)} for name, record in sorted(found.items())
                ]
                for kind, found in sorted(self.components.items())
            },
            "unreadable": dict(sorted(self.unreadable.items())),
            "settings": asdict(self.settings),
        }


def no_cluster(root: str) -> Mismatch:
    """Return what it means that there is no meta record."""
    return Mismatch(f"there is no cluster at {root}: start a scheduler first")


def check_meta(found: Meta, slots: int, root: str) -> str | None:
    """Return the message for a process whose values are not the cluster's, or None."""
    if found.protocol == CLOSED:
        return (
            f"the cluster at {root} is closed while it is restored or its slots are changed: wait"
            " for that, or run that command again if it was interrupted"
        )
    fault = refusal(found.protocol, root, SPOKEN)
    if fault or found.slots == slots:
        return fault
    return (
        f"the cluster at {root} was born with {found.slots} slots, this process has"
        f" {slots}: set slots to {found.slots}, or choose another root and"
        " another Redis database"
    )
