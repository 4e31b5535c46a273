"""Interfaces of a cluster's message queue.

::

    processor --publish--> slot queue --read--> owner --acknowledge--> gone
    stock processor --> inbox --forward--> slot queue
    owner A --save--> slot record --load--> owner B
    slot queue --park--> parking lot --fetch, remove--> gone

Seven things per message queue, bundled as `Queues`: the slot queues, the inbox (the queues of
pyspider's own names, which only stock components still fill), the slot records, the parking
lot, where messages wait that would block others in their slot queue, the wake-ups, and the
history and the log, which are kept beside them. Every method with I/O raises `Unavailable` when
the message queue does not answer, and never an error of a client library.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from msgspec import Struct

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.names import is_project_name
from pyspider_zk.queues.history import TaskHistory
from pyspider_zk.queues.log_lines import ClusterLog
from pyspider_zk.queues.names import QueueKind, SlotQueue, slot_queue

_TAG = re.compile(r"\d{1,20}(-\d{1,20})?", re.ASCII)
"""Tag of a message: in Redis the id of an entry, in memory a number."""


@dataclass(frozen=True)
class Message:
    """A message to publish.

    Attributes:
        kind: which of the slot's two queues.
        slot: the slot of the project, see `slot_of`.
        body: for `QueueKind.NEWTASK` a task, for `QueueKind.STATUS` a status pack.
    """

    kind: QueueKind
    slot: int
    body: object


@dataclass(frozen=True)
class SlotBacklog:
    """Waiting messages of one slot queue.

    Attributes:
        length: how many.
        age: seconds since the oldest was published, by the message queue's clock.
    """

    length: int
    age: float


class Delivery(Struct, frozen=True):
    """A message that was read and is not acknowledged yet.

    Attributes:
        kind: the queue it came from.
        slot: the slot it came from.
        tag: its name within that queue; opaque.
        body: what was published.
        is_valid: it passes `check_task`, and as a status pack `check_pack`; False: unknown.
    """

    kind: QueueKind
    slot: int
    tag: str
    body: Any
    is_valid: bool = False


@dataclass(frozen=True)
class Parked:
    """A message that waits in the parking lot instead of its slot queue.

    Without the body, which never changes: a replacement has another name.

    Attributes:
        kind: the queue that the message came from.
        slot: the slot that it came from.
        tag: its name within that queue, see `published`.
        project: the project of the message.
        taskid: the task that it waits for, because that is in flight; empty: it waits for its
            project.
    """

    kind: QueueKind
    slot: int
    tag: str
    project: str
    taskid: str = ""

    @classmethod
    def named(cls, slot: int, name: bytes) -> Self:
        """Parse a name.

        Raises:
            BadMessage: it is no such name.
        """
        try:
            tag, kind, project, taskid = name.decode().split(" ", 3)
            if _TAG.fullmatch(tag) and is_project_name(project):
                return cls(QueueKind(kind), slot, tag, project, taskid)
        except ValueError:
            pass
        raise BadMessage(f"nothing that is parked is called {name!r:.80}")

    @property
    def name(self) -> str:
        """Its name within its slot."""
        return f"{self.tag} {self.kind.value} {self.project} {self.taskid}"


@dataclass(frozen=True)
class ParkingMove:
    """Move of one message into the parking lot, or within it, in one step.

    Attributes:
        source: where it comes from; it is gone afterwards.
        target: its name then.
        body: its contents then.
        replaced: what it replaces.
    """

    source: Delivery | Parked
    target: Parked
    body: object
    replaced: Parked | None = None


@dataclass(frozen=True)
class DeadLetter:
    """A message that could not be processed.

    Attributes:
        tag: its name among the dead letters; opaque.
        kind: the queue it was found in.
        slot: the slot it was found in; None if it came through the inbox.
        reason: what is wrong with it, one sentence.
        time: when it was found, Unix seconds by the message queue's clock.
        body: the message as it was in the queue.
    """

    tag: str
    kind: QueueKind
    slot: int | None
    reason: str
    time: float
    body: bytes

    @property
    def queue(self) -> str:
        """Name of the queue it was found in."""
        return self.kind.value if self.slot is None else slot_queue(self.kind, self.slot)


def published(tag: str) -> int:
    """Return when a message was published, comparable among the queues of one message queue.

    The unit depends on the message queue; messages published in one call may share the value.
    """
    return int(tag.partition("-")[0])


def in_order(parked: Iterable[Parked]) -> list[Parked]:
    """Return parked messages in order of publication, new tasks before packs."""
    return sorted(parked, key=_place)


def _place(parked: Parked) -> tuple[int, bool, int]:
    _, _, number = parked.tag.partition("-")
    return published(parked.tag), parked.kind is QueueKind.STATUS, int(number or 0)


class SlotQueues(Protocol):
    """The queues ``newtask_queue:<slot>`` and ``status_queue:<slot>`` of all slots.

    A message is delivered at least once. It stays in its queue until acknowledged, so messages that
    an owner read and did not acknowledge are there for the next one. Since a slot has one owner,
    only this process knows what it has read, and `take` forgets it.

    Threads: `publish`, `full`, `lengths`, `close` and all about dead letters may be called from
    any; `take`, `drop`, `read`, `acknowledge` and `reject` belong to one thread, the
    scheduler loop.
    """

    def publish(self, messages: Sequence[Message]) -> None:
        """Append messages to their queues, in order, all or nothing, in one round trip.

        Blocks while one of the queues is at its limit, until there is room or `close`. The
        limit is lazy: only a queue whose last known length was at the limit is measured, so
        publishers together may exceed it by one call each. After a lost reply the client
        publishes again, so duplicates are possible, but no message is lost.

        Raises:
            BadMessage: the wire format cannot represent a body; nothing was published.
            Unavailable: the message queue is unavailable, or was closed while waiting.
        """

    def full(self, kind: QueueKind, slot: int) -> bool:
        """Return whether `publish` would wait for this queue. At most one request, never waits."""

    def take(self, slots: Iterable[int]) -> None:
        """Start reading these slots, from the oldest message that is not acknowledged.

        Does no I/O. A slot that was already taken starts over.
        """

    def drop(self, slots: Iterable[int]) -> None:
        """Stop reading these slots. Does no I/O; messages that were read may be acknowledged."""

    def read(
        self, kind: QueueKind, limit: int, ready: Collection[int] | None = None
    ) -> list[Delivery]:
        """Return at most `limit` messages of the taken slots that were not returned before.

        Never blocks. Oldest first within a slot, fair among slots: each gets an equal share of
        the limit, unused shares go to the others, and slots that got nothing come first next
        time. Messages that cannot be decoded become dead letters; a list of tasks, as members of
        before published it, becomes a message of each, which the next call finds, or a dead letter
        if one is too large by itself. After an error nothing counts as returned. Nothing is read
        before applied messages could be deleted.

        Args:
            ready: the slots to look into, if the caller knows where something is; None: all.
        """

    def unread(self, kind: QueueKind, slots: Iterable[int]) -> Mapping[int, str]:
        """Return for each slot the tag of its oldest message that `read` did not return yet.

        Slots without one are left out. One round trip. Belongs to the thread of `read`.
        """

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Delete applied messages, in one round trip.

        Doing it twice, or after the slot was lost, is harmless. Messages that could not
        be deleted because of an outage are deleted with the next call, even an empty one.
        """

    def reject(self, delivery: Delivery, reason: str) -> None:
        """Move a message that cannot be used to the dead letters, in one step."""

    def lengths(self) -> Mapping[QueueKind, int]:
        """Return how many messages all slot queues hold: unread and not acknowledged."""

    def backlog(self) -> Mapping[SlotQueue, SlotBacklog]:
        """Return the slot queues that are not empty: how many messages wait, and for how long."""

    def unreadable(self) -> Mapping[str, str]:
        """Return unreadable data: the key where it is kept now, and what is wrong with it.

        That is what all processes found and nobody removed, as this process last saw it, with
        `backlog` or by finding it. Nothing is deleted; the data is renamed, so that the slot goes
        on. No I/O.
        """

    def dead(self) -> int:
        """Return the number of dead letters."""

    def dead_letters(self, limit: int, skipped: int = 0) -> list[DeadLetter]:
        """Return the latest dead letters, newest first, behind some. They are not removed.

        Reads those that are skipped a hundred at a time, and keeps none of them.
        """

    def dead_letter_tags(self, until: str | None = None) -> list[str]:
        """Return the tags of all dead letters, oldest first; of those up to a tag, if one is given.

        Reads the letters a hundred at a time.
        """

    def replay(self, tags: Iterable[str]) -> int:
        """Put dead letters back, in this order, and return how many there were.

        A letter of a slot queue becomes its newest message; one of the inbox goes back there, to be
        assigned to its slot. Each moves in one step, whatever the limit of its queue. Unknown
        tags are skipped.
        """

    def discard(self, tags: Iterable[str]) -> int:
        """Delete dead letters permanently; return how many there were."""

    def close(self) -> None:
        """Close all connections and make waiting publishers raise `Unavailable`."""


class Inbox(Protocol):
    """The queues ``newtask_queue`` and ``status_queue``, which stock components fill.

    Threads: any. Any number of processes may forward at the same time.
    """

    def forward(self, limit: int) -> int:
        """Move at most `limit` messages of each kind to the slot queues; return how many.

        Each moves in one atomic step: a crash at any point neither loses nor duplicates one, and
        messages of a slot keep their order. A list of tasks is split by slot. Other messages go
        to the dead letters. A message for a slot queue at its limit stays, with all behind it,
        so that stock publishers notice the limit, too. Never blocks.
        """

    def lengths(self) -> Mapping[QueueKind, int]:
        """Return how many messages wait to be forwarded."""


class SlotRecords(Protocol):
    """Slot records: one durable value per slot, which an owner passes to the next.

    A record is a mapping of types that the wire format supports: text, bytes, numbers, lists,
    mappings.
    Some MB are fine. Threads: any. Blocks for one round trip.
    """

    def load(self, slot: int) -> dict[str, Any] | None:
        """Return the record of a slot, or None; it stays stored.

        An unreadable one counts as missing and is reported, see `SlotQueues.unreadable`.
        """

    def save_many(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Store records in place of the former ones, in one round trip, all or nothing.

        Raises:
            BadMessage: the wire format cannot represent a record.
        """

    def load_many(self, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Return the records of those of the slots that have one, in one round trip."""

    def drop_many(self, slots: Iterable[int]) -> None:
        """Delete the records of those of the slots that have one, in one round trip."""


class ParkingLot(Protocol):
    """Parking lot for messages that would block others in their slot queue.

    As durable as the slot queues. Parked messages do not count towards a queue's limit. All calls
    are safe to repeat after a lost reply, and harmless if a former owner makes them late.

    Threads: any; a slot's messages are moved by its owner. Blocks for one round trip.
    """

    def park(self, moves: Sequence[ParkingMove], limit: int = 0) -> list[bool]:
        """Carry out moves, each in one step of its own; return which found room.

        A move whose source is gone was carried out before, and changes nothing.

        Args:
            limit: the most that a slot may have parked for one more to find room; 0: any.
                What waits for a task always finds room: there is one per task in flight.

        Raises:
            BadMessage: the wire format cannot represent a body; nothing was moved.
        """

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """Return what is parked for these slots, in order of publication."""

    def sizes(self, parked: Sequence[Parked]) -> list[int]:
        """Return how many bytes each body has; none: it is no longer parked."""

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """Return the bodies of what is still parked; undecodable ones become dead letters.

        A list of tasks, as members of before parked it, goes back to its slot queue, task by task;
        it becomes a dead letter if one is too large by itself.
        """

    def remove(self, parked: Iterable[Parked]) -> None:
        """Delete what was applied; doing it twice is harmless."""

    def reject(self, parked: Parked, reason: str) -> None:
        """Move a message that cannot be used to the dead letters, in one step."""

    def waiting(self) -> Mapping[int, SlotBacklog]:
        """Return the slots for which messages are parked: how many, and for how long."""


class WakeUps(Protocol):
    """Waiting for slot queues that are empty.

    Threads: one. It may be another one than that of the slot queues.
    """

    def wait(self, seconds: float) -> set[SlotQueue]:
        """Return the slot queues that got a message while they were empty, as soon as one does.

        Counts what was published since the last call. Blocks for that many seconds, two at most;
        then the set is empty. Queues may be missing after a crash or a flood, and if a publisher of
        another kind is at work: the caller must read from time to time as well.

        Raises:
            Unavailable: the message queue is away.
        """


class WorkQueues(Protocol):
    """pyspider's queues between its other components, and who has taken messages from them.

    Threads: any. All methods raise ``Unavailable`` if the message queue does not answer.
    """

    def lengths(self) -> dict[str, int]:
        """Return how many messages wait in each queue, without what is taken."""

    def takers(self, queue: str) -> set[str]:
        """Return who may have messages of a queue."""

    def give_back(self, queue: str, taker: str) -> int:
        """Put what a dead one has before all else in its queue; return how many messages."""

    def under_way(self) -> list[dict[str, Any]]:
        """Return the tasks that wait for a fetcher or processor, or are with one.

        Huge ones may be missing, and so are those that pyspider's own components have.
        """


@dataclass(frozen=True)
class Queues:
    """All interfaces of one message queue for one process."""

    slot_queues: SlotQueues
    inbox: Inbox
    records: SlotRecords
    parking_lot: ParkingLot
    wake_ups: WakeUps
    work: WorkQueues
    history: TaskHistory
    log: ClusterLog

    def close(self) -> None:
        """Close all connections; wakes waiting publishers."""
        self.slot_queues.close()
