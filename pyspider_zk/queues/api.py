"""Message queue of a cluster: what each kind must do.

::

    processor --publish--> slot queue --read--> owner --acknowledge--> gone
    stock processor --> inbox --forward--> slot queue
    owner A --save--> slot record --load--> owner B
    slot queue --park--> parking lot --fetch, remove--> gone

Five things per message queue, bundled as `Queues`: the slot queues, the inbox (the queues of
pyspider's own names, which only stock components still fill), the slot records, the parking
lot, where messages wait that would block others in their slot queue, and the wake-ups. Every
method that talks raises `Unavailable` when the message queue does not answer, and no foreign
error ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspider_zk.queues.names import QueueKind


@dataclass(frozen=True)
class Message:
    """A message to publish.

    Attributes:
        kind: which of the slot's two queues.
        slot: the slot of the project, see `slot_of`.
        body: for `QueueKind.NEWTASK` a task or a list of tasks, for `QueueKind.STATUS` a status
            pack.
    """

    kind: QueueKind
    slot: int
    body: object


@dataclass(frozen=True)
class SlotBacklog:
    """Messages of one slot queue that wait.

    Attributes:
        length: how many.
        age: seconds since the oldest was published, by the message queue's clock.
    """

    length: int
    age: float


@dataclass(frozen=True)
class Delivery:
    """A message that was read and is not acknowledged yet.

    Attributes:
        kind: the queue it came from.
        slot: the slot it came from.
        tag: its name within that queue; says nothing else.
        body: what was published.
    """

    kind: QueueKind
    slot: int
    tag: str
    body: Any


@dataclass(frozen=True)
class Parked:
    """A message, or one task of it, that waits in the parking lot instead of its slot queue.

    All of it but the body, which never changes: what takes its place has another name.

    Attributes:
        kind: the queue that the message came from.
        slot: the slot that it came from.
        tag: its name within that queue, see `published`.
        project: whose message it is.
        taskid: the task that was put off; empty if it is all that the message has for the project.
    """

    kind: QueueKind
    slot: int
    tag: str
    project: str
    taskid: str = ""


@dataclass(frozen=True)
class ParkingMove:
    """One message on its way into the parking lot, or within it, in one step.

    Attributes:
        source: what it comes from, and is gone afterwards.
        pieces: what is parked of it, each with its body.
        replaced: what the pieces take the place of.
        reason: why the source becomes a dead letter besides; empty: it does not.
    """

    source: Delivery | Parked
    pieces: Mapping[Parked, object] = field(default_factory=dict)
    replaced: Sequence[Parked] = ()
    reason: str = ""


@dataclass(frozen=True)
class DeadLetter:
    """A message that nobody could use.

    Attributes:
        tag: its name among the dead letters; says nothing else.
        kind: the queue it was found in.
        slot: the slot it was found in; None if it came through the inbox.
        reason: what is wrong with it, one sentence.
        time: when it was found, Unix seconds by the message queue's clock.
        body: the message as it stood in the queue.
    """

    tag: str
    kind: QueueKind
    slot: int | None
    reason: str
    time: float
    body: bytes


def published(tag: str) -> int:
    """Return when a message was published, comparable among the queues of one message queue.

    In a unit that only the message queue knows; what was published in one call may share it.
    """
    return int(tag.partition("-")[0])


class SlotQueues(Protocol):
    """The queues ``newtask_queue:<slot>`` and ``status_queue:<slot>`` of all slots.

    A message is delivered at least once. It stays in its queue until acknowledged, so what an
    owner read and did not acknowledge is there for the next one. Since a slot has one owner,
    what this process read already is known to this process alone, and forgotten by `take`.

    Threads: `publish`, `full`, `lengths`, `close` and all about dead letters may be called from
    any; `take`, `drop`, `read`, `acknowledge` and `bury` belong to one thread, the
    scheduler loop.
    """

    def publish(self, messages: Sequence[Message]) -> None:
        """Append messages to their queues, in order, all or nothing, in one round trip.

        Blocks while one of the queues is at its limit, until there is room or `close`. The
        limit is lazy: only a queue whose last known length was at the limit is asked, so
        publishers together may exceed it by what one call of each holds. A lost reply makes
        the client publish again: twice is possible, never is not.

        Raises:
            BadMessage: a body that the wire format has no form for; nothing was published.
            Unavailable: the message queue is unavailable, or was closed while waiting.
        """

    def full(self, kind: QueueKind, slot: int) -> bool:
        """Return whether `publish` would wait for this queue. Asks at most once, never waits."""

    def take(self, slots: Iterable[int]) -> None:
        """Start to read these slots, from the oldest message on that is not acknowledged.

        Does no I/O. A slot that was taken already starts over too.
        """

    def drop(self, slots: Iterable[int]) -> None:
        """Stop to read these slots. Does no I/O; what was read may still be acknowledged."""

    def read(self, kind: QueueKind, limit: int) -> list[Delivery]:
        """Return at most `limit` messages of the taken slots that were not returned before.

        Never blocks. Oldest first within a slot, fair among slots: each gets an equal share of
        the limit, what one leaves goes to the others, and slots that found no place come first
        next time. Messages that cannot be decoded are buried on the way. After an error
        nothing counts as returned. Nothing is read before what is applied could be deleted.
        """

    def unread(self, kind: QueueKind, slots: Iterable[int]) -> Mapping[int, str]:
        """Return for each slot the tag of its oldest message that `read` did not return yet.

        Slots without one are left out. One round trip. Belongs to the thread of `read`.
        """

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Delete messages that were applied, in one round trip.

        Doing it twice, or after the slot was lost, is harmless. What could not be deleted,
        because the message queue was unavailable, will be with the next call, even an empty one.
        """

    def bury(self, delivery: Delivery, reason: str) -> None:
        """Move a message that cannot be used to the dead letters, in one step."""

    def lengths(self) -> Mapping[QueueKind, int]:
        """Return how many messages all slot queues hold: unread and not acknowledged."""

    def backlog(self) -> Mapping[tuple[QueueKind, int], SlotBacklog]:
        """Return the slot queues that hold something: how much, and for how long already."""

    def unreadable(self) -> Mapping[str, str]:
        """Return what could not be read: the key where it is kept now, and what is wrong, in words.

        That is what all processes met and nobody dealt with, as this process last saw it, with
        `backlog` or by meeting it. Nothing is deleted; what was there is moved out of the way, so
        that the slot goes on. No I/O.
        """

    def dead(self) -> int:
        """Return the number of dead letters."""

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Return the latest dead letters, newest first. They stay where they are."""

    def replay(self, tags: Iterable[str]) -> int:
        """Put dead letters back, in this order, and return how many there were.

        One of a slot queue becomes its newest message; one of the inbox goes there again, to find
        its slot. Each moves in one step, whatever the limit of its queue. Tags that no letter has
        are skipped.
        """

    def discard(self, tags: Iterable[str]) -> int:
        """Delete dead letters for good; return how many there were."""

    def close(self) -> None:
        """Close all connections and make waiting publishers raise `Unavailable`."""


class Inbox(Protocol):
    """The queues ``newtask_queue`` and ``status_queue``, which stock components fill.

    Threads: any. Any number of processes may forward at the same time.
    """

    def forward(self, limit: int) -> int:
        """Move at most `limit` messages of each kind to the slot queues; return how many.

        Each moves in one step of the message queue: a crash at any point loses none and
        doubles none, and messages of a slot keep their order. A list of tasks is split by
        slot. What is no task goes to the dead letters. A message for a slot queue at its
        limit stays, with all behind it, so that stock publishers feel the limit too. Never
        blocks.
        """

    def lengths(self) -> Mapping[QueueKind, int]:
        """Return how many messages wait to be forwarded."""


class SlotRecords(Protocol):
    """One durable value per slot: what an owner hands to the next.

    A record is a mapping of what the wire format knows: text, bytes, numbers, lists, mappings.
    Some MB are fine. Threads: any. Blocks for one round trip.
    """

    def save(self, slot: int, record: Mapping[str, Any]) -> None:
        """Store the record of a slot in place of the former one.

        Raises:
            BadMessage: the record has no wire form.
        """

    def load(self, slot: int) -> dict[str, Any] | None:
        """Return the record of a slot, or None; it stays stored.

        One that cannot be read is none; it is told of, see `SlotQueues.unreadable`.
        """

    def drop(self, slot: int) -> None:
        """Delete the record of a slot, if there is one."""

    def save_many(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Store several records in one round trip, all or nothing."""

    def load_many(self, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return the records of those of the slots that have one, in one round trip."""

    def drop_many(self, slots: Iterable[int]) -> None:
        """Delete the records of several slots in one round trip."""


class ParkingLot(Protocol):
    """Where messages wait that must not wait in their slot queue: there they would block others.

    As durable as the slot queues. What is parked counts against no queue's limit. All of it is
    safe to repeat after a lost reply, and harmless if a former owner does it late.

    Threads: any; a slot's messages are moved by its owner. Blocks for one round trip.
    """

    def park(self, moves: Sequence[ParkingMove], limit: int = 0) -> list[bool]:
        """Carry out moves, each in one step of its own; return which found room.

        A move whose source is gone was carried out before, and changes nothing.

        Args:
            limit: the most that a slot may have parked for a whole message to find room; 0: any.
                Tasks that were put off find room always: there is one per task under way.

        Raises:
            BadMessage: a body that the wire format has no form for; nothing was moved.
        """

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """Return what is parked for these slots, in the order in which it was published."""

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """Return the bodies of those that are still parked. What cannot be decoded is buried."""

    def remove(self, parked: Iterable[Parked]) -> None:
        """Delete what was applied; doing it twice is harmless."""

    def waiting(self) -> Mapping[int, SlotBacklog]:
        """Return the slots for which something is parked: how much, and for how long already."""


class WakeUps(Protocol):
    """Waiting for slot queues that are empty.

    Threads: one. It may be another one than that of the slot queues.
    """

    def wait(self, seconds: float) -> set[int]:
        """Return the slots that got a message while their queue was empty, as soon as one does.

        What was published since the last call counts. Blocks for so many seconds at most, and for
        two; then the set is empty. Some may be missing, after a crash or a flood, and from
        publishers of other kinds: whoever waits must read from time to time as well.

        Raises:
            Unavailable: the message queue is away.
        """


@dataclass(frozen=True)
class Queues:
    """All that one message queue offers to one process."""

    slot_queues: SlotQueues
    inbox: Inbox
    records: SlotRecords
    parking_lot: ParkingLot
    wake_ups: WakeUps

    def close(self) -> None:
        """Close all connections; wakes waiting publishers."""
        self.slot_queues.close()
