"""What stands in ZooKeeper, as immutable values, parsed once at the edge."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pyspider_zk.core.phases import Phase
from pyspider_zk.core.slots import slot_of

PROTOCOL = 1


class MemberId(NamedTuple):
    """A member's number and incarnation.

    The incarnation is new in every ZooKeeper session, so a process that comes back under its old
    number owns nothing: its former self may still be running, paused.
    """

    number: int
    incarnation: str

    def __str__(self) -> str:
        return f"{self.number}-{self.incarnation}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the form that ``str`` writes."""
        number, _, incarnation = text.partition("-")
        return cls(int(number), incarnation)


class ComponentKind(StrEnum):
    """The processes that register their presence but own no slots."""

    PROCESSOR = "processor"
    FETCHER = "fetcher"
    RESULT_WORKER = "result-worker"
    WEBUI = "webui"


class Record:
    """JSON form of a flat dataclass; unknown keys of a newer version are ignored."""

    def encode(self) -> bytes:
        """Return the bytes for the znode."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()  # type: ignore[call-overload]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{key: value for key, value in json.loads(data).items() if key in known})


@dataclass(frozen=True)
class Meta(Record):
    """What every process of a cluster must agree on for ever."""

    slots: int
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class Member(Record):
    """A scheduler that joined, as its znode tells.

    Attributes:
        address: ``host:port`` of its XML-RPC.
        started: seconds since the epoch.
        draining: its slots shall move away; it gets none.
    """

    address: str
    host: str
    pid: int
    version: str
    started: float
    name: str = ""
    draining: bool = False


@dataclass(frozen=True)
class Component(Record):
    """A processor, fetcher, result worker or web UI that registered its presence."""

    host: str
    pid: int
    version: str
    started: float
    address: str = ""


@dataclass(frozen=True)
class Load(Record):
    """What a member carries, told with each renewal of its lease.

    Attributes:
        projects: how many it has in memory.
        pending: how many tasks it has in memory.
        tasks_per_s: status packs that it applied per second, over the last seconds.
        cpu: share of one processor that its process used meanwhile.
    """

    projects: int = 0
    pending: int = 0
    tasks_per_s: float = 0.0
    cpu: float = 0.0


class Slot(NamedTuple):
    """One row of the assignment.

    Attributes:
        owner: who schedules the slot's projects; None only before the first grant.
        epoch: grows by one with every grant.
        next: who gets the slot once the owner has released it; None while it stays.
    """

    owner: MemberId | None = None
    epoch: int = 0
    next: MemberId | None = None

    @property
    def phase(self) -> Phase:
        """Derive the phase from who is named."""
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
    def vacant(cls, slots: int) -> Self:
        """Return the table of a new cluster."""
        return cls(0, (Slot(),) * slots)

    def owned_by(self, member: MemberId) -> dict[int, int]:
        """Return the slots that a member shall serve, with their epochs."""
        return {
            number: slot.epoch
            for number, slot in enumerate(self.slots)
            if slot.owner == member and slot.next is None
        }

    def releasing_by(self, member: MemberId) -> dict[int, int]:
        """Return the slots that a member shall give up, with their epochs."""
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
        return json.dumps(table, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode."""
        table = json.loads(data)
        names: list[MemberId | None] = [*map(MemberId.parse, table["members"]), None]
        rows = (Slot(names[owner], epoch, names[after]) for owner, epoch, after in table["slots"])
        return cls(table["epoch"], tuple(rows))


def encode_acks(acks: Mapping[int, int]) -> bytes:
    """Return the bytes for a member's releases, slot to epoch."""
    return json.dumps({str(slot): epoch for slot, epoch in acks.items()}).encode()


def decode_acks(data: bytes) -> dict[int, int]:
    """Read a member's releases, slot to epoch."""
    return {int(slot): epoch for slot, epoch in json.loads(data or b"{}").items()}


@dataclass(frozen=True)
class Cluster:
    """Everything that stands in ZooKeeper about a cluster at one moment (nearly).

    Attributes:
        renewals: the version of each member's lease, which grows by one with every renewal.
    """

    meta: Meta
    assignment: Assignment
    leader: MemberId | None = None
    members: Mapping[MemberId, Member] = field(default_factory=dict)
    loads: Mapping[MemberId, Load] = field(default_factory=dict)
    components: Mapping[ComponentKind, Mapping[str, Component]] = field(default_factory=dict)
    renewals: Mapping[MemberId, int] = field(default_factory=dict)

    def slot_counts(self) -> dict[MemberId, int]:
        """Return how many slots each owner has, those that left without a successor included."""
        counts = dict.fromkeys(self.members, 0)
        for slot in self.assignment.slots:
            if slot.owner is not None:
                counts[slot.owner] = counts.get(slot.owner, 0) + 1
        return counts

    def owner(self, slot: int) -> MemberId | None:
        """Return the running member that has a slot, if there is one just now."""
        owner = self.assignment.slots[slot].owner
        return owner if owner in self.members else None

    def owner_of(self, project: str) -> Member | None:
        """Return the running member that schedules a project, if there is one just now."""
        owner = self.owner(slot_of(project, self.meta.slots))
        return self.members[owner] if owner else None

    def moves_since(self, before: "Cluster") -> Iterator[int]:
        """Yield the slots whose owner changed."""
        rows = zip(before.assignment.slots, self.assignment.slots, strict=True)
        return (number for number, (old, new) in enumerate(rows) if old.owner != new.owner)

    def as_dict(self) -> dict[str, Any]:
        """Return the form that ``status --json`` prints."""
        counts = self.slot_counts()
        return {
            "epoch": self.assignment.epoch,
            "slots": self.meta.slots,
            "leader": self.leader.number if self.leader else None,
            "members": [
                {
                    "number": member.number,
                    "incarnation": member.incarnation,
                    **asdict(record),
                    "slots": counts.get(member, 0),
                    **asdict(self.loads.get(member, Load())),
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
        }


def check_meta(found: Meta, mine: Meta, root: str) -> str | None:
    """Return what to tell a process whose values are not the cluster's, or None."""
    if found == mine:
        return None
    if found.protocol != mine.protocol:
        return (
            f"the cluster at {root} speaks protocol {found.protocol}, this version speaks"
            f" {mine.protocol}: run one version everywhere, or choose another root and"
            " another Redis database"
        )
    return (
        f"the cluster at {root} was born with {found.slots} slots, this process has"
        f" {mine.slots}: set slots to {found.slots}, or choose another root and"
        " another Redis database"
    )
