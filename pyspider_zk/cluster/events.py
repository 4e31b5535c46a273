"""Events: who did what and when, and what happened to the cluster itself."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pyspider_zk.cluster.records import MOST_EPOCH, Assignment, LeaseTerms, Member
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.zookeeper.codec import decode, encode, plain

PREFIX = "event-"
SEQUENCES = range(-(2**31), 2**31)
"""The numbers that ZooKeeper appends."""

_NAME = re.compile(rf"{PREFIX}(-?[0-9]{{9,10}})")

LARGEST = 16 * 1024  # bytes of an event when it is written; a larger one is cut
MOST = 64 * 1024  # bytes of an event when it is read, inflated; hundreds are read at once
MOST_MEMBERS = MOST_SLOTS  # of a checkpoint; more have no slot to own
TOLD_AT_ONCE = 16  # members that joined, and that are gone; all the events fit into a transaction
PAIRS_AT_ONCE = 200  # of old and new owner, that one transaction has events for
TEXT_LIMIT = 1000  # characters of the sentence, and of the name, in an event that is cut


class EventKind(StrEnum):
    """What happened."""

    JOINED = "joined"
    LEFT = "left"
    DIED = "died"
    LEADER = "leader"
    MOVED = "moved"
    BATCH = "batch"
    CANCEL = "cancel"
    ENDED = "ended"
    DRAIN = "drain"
    SETTINGS = "settings"
    MAINTENANCE = "maintenance"
    REBALANCE = "rebalance"
    EVICT = "evict"
    PIN = "pin"
    UPGRADE = "upgrade"
    DEAD_LETTERS = "dead-letters"
    SCRIPT = "script"
    CHANGE = "change"
    RUN = "run"
    TRIAL = "trial"
    PROCESSOR = "processor"


@dataclass(frozen=True)
class Event:
    """An entry of the event log.

    Attributes:
        kind: one of ``EventKind``, or one of a newer version.
        text: one sentence.
        at: seconds since the epoch, on the clock of whoever wrote it.
        who: a member, or a user.
        data: details for programs.
    """

    kind: str
    text: str
    at: float
    who: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the bytes for the znode; an event that is too large is cut, and says so."""
        return encode(self if len(plain(self)) <= LARGEST else self._cut())

    def _cut(self) -> Self:
        """Return the event without its largest details, and with shorter texts."""
        text, who = self.text[:TEXT_LIMIT], self.who[:TEXT_LIMIT]
        kept: dict[str, Any] = {"cut": True}
        room = LARGEST - len(plain((self.kind, text, who))) - len(plain(kept)) - TEXT_LIMIT
        for key, value in sorted(self.data.items(), key=lambda item: len(plain(item))):
            room -= len(plain((key, value)))
            if room >= 0:
                kept[key] = value
        return replace(self, text=f"{text} (cut: it was too long)", who=who, data=kept)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; ``BadMessage`` if they are not an event."""
        return decode(cls, data, MOST)


def sequence_of(name: str) -> int:
    """Return the number in the name of an event's znode; it overflows to negative.

    Raises:
        BadMessage: it is not an event's name.
    """
    found = _NAME.fullmatch(name)
    number = int(found[1]) if found else 0
    if not found or number not in SEQUENCES or event_name(number) != name:
        raise BadMessage(f"{name[:100]!r} is not the name of an event")
    return number


def event_name(sequence: int) -> str:
    """Return the name of an event's znode."""
    return f"{PREFIX}{sequence:010d}"


def age_order(sequence: int) -> int:
    """Sort key: the oldest first."""
    return sequence % 2**32


# --- the events that the leader writes -----------------------------------------------------------


class Moves(NamedTuple):
    """How many slots one write of the assignment moved, by old and new owner."""

    epoch: int
    counts: Mapping[tuple[MemberId | None, MemberId | None], int]


def moves_between(before: Assignment, after: Assignment) -> Moves:
    """Count the slots whose owner changed."""
    counts: dict[tuple[MemberId | None, MemberId | None], int] = {}
    for old, new in zip(before.slots, after.slots, strict=True):
        if old.owner != new.owner:
            pair = (old.owner, new.owner)
            counts[pair] = counts.get(pair, 0) + 1
    return Moves(after.epoch, counts)


@dataclass(frozen=True)
class Checkpoint:
    """State of the cluster up to the last event; the leader stores it with the events.

    Attributes:
        leader: the last one with an event.
        members: those whose joining has an event, and whose end has none.
        epoch: of the assignment; all moves up to it have events.
    """

    leader: str = ""
    members: Sequence[str] = ()
    epoch: int = 0

    def encode(self) -> bytes:
        """Return the bytes for the znode."""
        return encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; ``BadMessage`` if they are not a checkpoint."""
        checkpoint = decode(cls, data)
        if len(checkpoint.members) > MOST_MEMBERS or not 0 <= checkpoint.epoch <= MOST_EPOCH:
            raise BadMessage(f"no checkpoint has {len(checkpoint.members)} members or that epoch")
        for member in checkpoint.members:
            MemberId.parse(member)
        return checkpoint


@dataclass(frozen=True)
class LeaderObservation:
    """What a leader sees of the cluster.

    Attributes:
        leader: itself.
        members: those whose ephemeral node exists.
        leases: of those that are gone: one that left for good has deleted it.
        moves: moves of slots that may have no event yet.
    """

    leader: MemberId
    members: Mapping[MemberId, Member]
    leases: Mapping[str, LeaseTerms] = field(default_factory=dict)
    moves: Sequence[Moves] = ()


def gone(checkpoint: Checkpoint, members: Collection[MemberId]) -> list[str]:
    """Return the members of the checkpoint that are not registered any more, of many the first."""
    return sorted(set(checkpoint.members).difference(map(str, members)))[:TOLD_AT_ONCE]


def is_told(checkpoint: Checkpoint, members: Collection[MemberId]) -> bool:
    """Return whether all who joined, and all who are gone, have their event."""
    return set(checkpoint.members) == set(map(str, members))


def new_events(
    checkpoint: Checkpoint, observation: LeaderObservation, now: float
) -> tuple[Checkpoint, list[Event]]:
    """Return the checkpoint after the next events since this one, and these events.

    They fit into one transaction, so of many members only the first are told of, and no moves yet;
    and of many moves only the first.
    """
    known, leader = set(checkpoint.members), str(observation.leader)
    arrived = [each for each in sorted(observation.members) if str(each) not in known]
    arrived, ended = arrived[:TOLD_AT_ONCE], gone(checkpoint, observation.members)
    told = known.difference(ended).union(map(str, arrived))
    after = Checkpoint(leader, tuple(sorted(told)), checkpoint.epoch)
    moves = observation.moves if is_told(after, observation.members) else ()
    epoch, moved = _moves_at_once(moves, checkpoint.epoch, now)
    events = [
        *(_joined(member, observation.members[member], now) for member in arrived),
        *(_gone(member, observation.leases.get(member), now) for member in ended),
        *([] if checkpoint.leader == leader else [_leads(leader, now)]),
        *moved,
    ]
    return replace(after, epoch=epoch), events


def _joined(member: MemberId, record: Member, now: float) -> Event:
    data = {"address": record.address, "name": record.name}
    text = f"member {member} joined at {record.address}"
    return Event(EventKind.JOINED, text, now, str(member), data)


def _gone(member: str, lease: LeaseTerms | None, now: float) -> Event:
    if lease is None:
        return Event(EventKind.LEFT, f"member {member} left", now, member)
    if lease.left:
        text = f"member {member} left: its slots wait {lease.lease:g} s for it to be back"
        return Event(EventKind.LEFT, text, now, member)
    return Event(EventKind.DIED, f"member {member} died: its session ended", now, member)


def _leads(member: str, now: float) -> Event:
    return Event(EventKind.LEADER, f"member {member} leads", now, member)


def _moves_at_once(moves: Sequence[Moves], epoch: int, now: float) -> tuple[int, list[Event]]:
    """Return the epoch up to which moves are told, and the events of those after this one."""
    told: list[Event] = []
    for each in moves:
        more = _moves(each, now) if each.epoch > epoch else []
        if len(told) + len(more) > PAIRS_AT_ONCE:
            break
        told, epoch = [*told, *more], max(epoch, each.epoch)
    return epoch, told


def _moves(moves: Moves, now: float) -> list[Event]:
    """Return an event for each pair of owners; for very many one, to fit into a transaction."""
    if len(moves.counts) <= PAIRS_AT_ONCE:
        return [_moved(moves, pair, now) for pair in moves.counts]
    count = sum(moves.counts.values())
    text = f"{count} slots moved between {len(moves.counts)} pairs of owners"
    return [Event(EventKind.MOVED, text, now, data={"slots": count, "epoch": moves.epoch})]


def _moved(moves: Moves, pair: tuple[MemberId | None, MemberId | None], now: float) -> Event:
    old, new = (str(member) if member else "" for member in pair)
    count = moves.counts[pair]
    slots = f"{count} slot" if count == 1 else f"{count} slots"
    text = f"{slots} moved from {old or 'nobody'} to {new}"
    data = {"from": old, "to": new, "slots": count, "epoch": moves.epoch}
    return Event(EventKind.MOVED, text, now, new, data)
