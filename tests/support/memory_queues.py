"""All queues of a cluster in the memory of one process, for tests.

Messages in a `MemoryBroker` are encoded and decoded as on the wire. Several processes of
a cluster are simulated by calling `queues` once for each::

    broker = MemoryBroker()
    one, two = broker.queues(slots=256), broker.queues(slots=256)
"""

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count, islice
from threading import Condition, RLock
from typing import Any

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.queues.api import (
    DeadLetter,
    Delivery,
    Message,
    Parked,
    ParkingMove,
    Queues,
    SlotBacklog,
    in_order,
)
from pyspider_zk.queues.codec import decode_record, encode, encode_record
from pyspider_zk.queues.history import Sums
from pyspider_zk.queues.log_lines import KEPT, Entry, LogLine
from pyspider_zk.queues.names import WORK_QUEUES, QueueKind, SlotQueue, slot_queue
from pyspider_zk.queues.routing import RoutedMessage, route
from pyspider_zk.queues.slot_queues import (
    CommonSlotQueues,
    Wait,
    gather,
    tags_of,
    unpack,
    unpack_parked,
)

log = logging.getLogger(__name__)


class MemoryBroker:
    """State that all simulated processes share. Threads: any.

    Args:
        now: the clock of messages and dead letters, Unix seconds.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.lock = RLock()
        self.streams: defaultdict[SlotQueue, dict[int, bytes]] = defaultdict(dict)
        self.inboxes: dict[QueueKind, deque[bytes]] = {kind: deque() for kind in QueueKind}
        self.records: dict[int, bytes] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.parked: dict[Parked, bytes] = {}
        self.unreadable: dict[str, str] = {}
        self.history: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.additions: dict[str, int] = {}
        self.log: deque[Entry] = deque(maxlen=KEPT)
        self.woken: list[SlotQueue] = []
        self.grown = Condition(self.lock)
        self._tags = count(1)
        self._published: dict[int, float] = {}
        self.now = now

    def queues(self, slots: int, limit: int = 0, wait: Wait | None = None) -> Queues:
        """Return the queues of one more simulated process."""
        slot_queues = MemorySlotQueues(self, limit, wait)
        return Queues(
            slot_queues,
            MemoryInbox(self, slots, limit),
            MemorySlotRecords(self),
            MemoryParkingLot(self),
            MemoryWakeUps(self),
            NoWorkQueues(),
            MemoryHistory(self),
            MemoryLog(self),
        )

    def append(self, queue: SlotQueue, raw: bytes) -> None:
        """Append the wire form of a message to a slot queue."""
        with self.lock:
            tag = next(self._tags)
            self._published[tag] = self.now()
            if not self.streams[queue]:
                self.woken.append(queue)
                self.grown.notify_all()
            self.streams[queue][tag] = raw

    def published(self, tag: int) -> float:
        """Return when a message was published that is in a slot queue, or was."""
        return self._published.get(tag, self.now())

    def remove(self, queue: SlotQueue, tag: int) -> bytes | None:
        """Remove a message from a slot queue, if it is there; return its wire form."""
        with self.lock:
            raw = self.streams[queue].pop(tag, None)
            if not self.streams[queue]:
                del self.streams[queue]
            return raw

    def waiting(self) -> dict[SlotQueue, SlotBacklog]:
        """Return the slot queues that hold something, with the age of the oldest."""
        with self.lock:
            return {
                queue: SlotBacklog(len(stream), self.now() - self._published[next(iter(stream))])
                for queue, stream in self.streams.items()
                if stream
            }

    def reject(self, kind: QueueKind, slot: int | None, reason: str, raw: bytes) -> None:
        """Append a dead letter."""
        with self.lock:
            tag = str(next(self._tags))
            self.dead[tag] = DeadLetter(tag, kind, slot, brief(reason), self.now(), raw)

    def restore(self, tag: str) -> bool:
        """Put a dead letter back where it was found, if it exists."""
        with self.lock:
            letter = self.dead.pop(tag, None)
            if letter is None:
                return False
            if letter.slot is None:
                self.inboxes[letter.kind].append(letter.body)
            else:
                self.append((letter.kind, letter.slot), letter.body)
            return True


class MemorySlotQueues(CommonSlotQueues):
    """`SlotQueues` in memory."""

    def __init__(self, broker: MemoryBroker, limit: int = 0, wait: Wait | None = None) -> None:
        super().__init__(limit, wait)
        self._broker = broker

    def publish(self, messages: Sequence[Message]) -> None:
        """See `SlotQueues.publish`."""
        bodies = [encode(message.body) for message in messages]
        queues = {(message.kind, message.slot) for message in messages}
        self._room.wait_for(queues)
        with self._broker.lock:
            for message, body in zip(messages, bodies, strict=True):
                self._broker.append((message.kind, message.slot), body)
        self._room.note(self._measure(queues))

    def read(
        self, kind: QueueKind, limit: int, ready: Collection[int] | None = None
    ) -> list[Delivery]:
        """See `SlotQueues.read`."""
        with self._broker.lock:
            if ready is None:
                ready = [slot for its, slot in self._broker.streams if its is kind]
            turn = self._positions.turn(kind, ready, limit)
            found = gather(lambda after, count: self._fetch(kind, after, count), turn, limit)
            deliveries = unpack(kind, found, self.reject, self._split)
            self._positions.delivered(tags_of(deliveries))
        return deliveries

    def unread(self, kind: QueueKind, slots: Iterable[int]) -> Mapping[int, str]:
        """See `SlotQueues.unread`."""
        with self._broker.lock:
            found = self._fetch(kind, self._positions.after(kind, slots), 1)
        return {slot: batch[0][0] for slot, batch in found.items() if batch}

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """See `SlotQueues.acknowledge`."""
        with self._broker.lock:
            for delivery in deliveries:
                self._pop(delivery)
        self._positions.acknowledged(tags_of(deliveries))

    def reject(self, delivery: Delivery, reason: str) -> None:
        """See `SlotQueues.reject`."""
        with self._broker.lock:
            raw = self._pop(delivery)
            if raw is not None:
                self._broker.reject(delivery.kind, delivery.slot, reason, raw)
        self._positions.acknowledged(tags_of([delivery]))
        name = slot_queue(delivery.kind, delivery.slot)
        log.warning("message %s of %s is a dead letter: %s", delivery.tag, name, brief(reason))

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `SlotQueues.lengths`."""
        with self._broker.lock:
            held = [(kind, len(stream)) for (kind, _), stream in self._broker.streams.items()]
        return {kind: sum(length for its, length in held if its is kind) for kind in QueueKind}

    def backlog(self) -> Mapping[SlotQueue, SlotBacklog]:
        """See `SlotQueues.backlog`."""
        return self._broker.waiting()

    def unreadable(self) -> Mapping[str, str]:
        """See `SlotQueues.unreadable`."""
        return dict(self._broker.unreadable)

    def dead(self) -> int:
        """See `SlotQueues.dead`."""
        return len(self._broker.dead)

    def dead_letters(self, limit: int, skipped: int = 0) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        with self._broker.lock:
            return list(
                islice(reversed(self._broker.dead.values()), skipped, skipped + max(limit, 0))
            )

    def dead_letter_tags(self, until: str | None = None) -> list[str]:
        """See `SlotQueues.dead_letter_tags`."""
        with self._broker.lock:
            tags = list(self._broker.dead)
        return tags if until is None else tags[: tags.index(until) + 1]

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`."""
        return sum(map(self._broker.restore, tags))

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`."""
        with self._broker.lock:
            return sum(self._broker.dead.pop(tag, None) is not None for tag in tags)

    def close(self) -> None:
        """See `SlotQueues.close`."""
        self._room.close()

    def _fetch(
        self, kind: QueueKind, after: Mapping[int, str], count: int
    ) -> dict[int, list[tuple[str, bytes]]]:
        batches = {}
        for slot, last in after.items():
            stream = self._broker.streams.get((kind, slot), {}).items()
            unread = ((str(tag), raw) for tag, raw in stream if tag > int(last))
            batches[slot] = list(islice(unread, count))
        return batches

    def _split(self, delivery: Delivery) -> None:
        raws = list(map(encode, delivery.body))
        if self._pop(delivery) is not None:
            for raw in raws:
                self._broker.append((delivery.kind, delivery.slot), raw)

    def _measure(self, queues: Collection[SlotQueue]) -> dict[SlotQueue, int]:
        with self._broker.lock:
            return {queue: len(self._broker.streams.get(queue, ())) for queue in queues}

    def _pop(self, delivery: Delivery) -> bytes | None:
        return self._broker.remove((delivery.kind, delivery.slot), int(delivery.tag))


class MemoryInbox:
    """`Inbox` in memory."""

    def __init__(self, broker: MemoryBroker, slots: int, limit: int) -> None:
        self._broker = broker
        self._slots = slots
        self._limit = limit

    def forward(self, limit: int) -> int:
        """See `Inbox.forward`."""
        with self._broker.lock:
            return sum(self._forward(kind, limit) for kind in QueueKind)

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `Inbox.lengths`."""
        return {kind: len(inbox) for kind, inbox in self._broker.inboxes.items()}

    def _forward(self, kind: QueueKind, limit: int) -> int:
        inbox = self._broker.inboxes[kind]
        moved = 0
        while inbox and moved < limit:
            target = route(kind, inbox[0], self._slots)
            if any(self._full((kind, slot)) for slot in target.parts):
                break
            self._move(kind, target)
            inbox.popleft()
            moved += 1
        return moved

    def _full(self, queue: SlotQueue) -> bool:
        return 0 < self._limit <= len(self._broker.streams.get(queue, ()))

    def _move(self, kind: QueueKind, target: RoutedMessage) -> None:
        for slot, parts in target.parts.items():
            for raw in parts:
                self._broker.append((kind, slot), raw)
        for reason, raw in target.rejected:
            self._broker.reject(kind, None, reason, raw)
            log.warning("rejected %d bytes from %s: %s", len(raw), kind.value, reason)


class MemorySlotRecords:
    """`SlotRecords` in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._records = broker.records

    def load(self, slot: int) -> dict[str, Any] | None:
        """See `SlotRecords.load`."""
        raw = self._records.get(slot)
        try:
            return None if raw is None else decode_record(slot, raw)
        except BadMessage as error:
            self._broker.unreadable[f"slot_record:{slot}"] = str(error)
            log.error("%s", error)
            del self._records[slot]
            return None

    def save_many(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """See `SlotRecords.save_many`."""
        self._records.update({slot: encode_record(slot, own) for slot, own in records.items()})

    def load_many(self, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """See `SlotRecords.load_many`."""
        loaded = {slot: self.load(slot) for slot in slots}
        return {slot: record for slot, record in loaded.items() if record is not None}

    def drop_many(self, slots: Iterable[int]) -> None:
        """See `SlotRecords.drop_many`."""
        for slot in slots:
            self._records.pop(slot, None)


class MemoryParkingLot:
    """`ParkingLot` in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def park(self, moves: Sequence[ParkingMove], limit: int = 0) -> list[bool]:
        """See `ParkingLot.park`."""
        bodies = [encode(move.body) for move in moves]
        with self._broker.lock:
            return [self._park(*each, limit) for each in zip(moves, bodies, strict=True)]

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """See `ParkingLot.load`."""
        wanted = set(slots)
        with self._broker.lock:
            return in_order(each for each in self._broker.parked if each.slot in wanted)

    def sizes(self, parked: Sequence[Parked]) -> list[int]:
        """See `ParkingLot.sizes`."""
        return [len(self._broker.parked.get(each, b"")) for each in parked]

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """See `ParkingLot.fetch`."""
        found = [(each, self._broker.parked.get(each)) for each in parked]
        return unpack_parked(found, self.reject, self._split)

    def remove(self, parked: Iterable[Parked]) -> None:
        """See `ParkingLot.remove`."""
        with self._broker.lock:
            for each in parked:
                self._broker.parked.pop(each, None)

    def reject(self, parked: Parked, reason: str) -> None:
        """See `ParkingLot.reject`."""
        with self._broker.lock:
            raw = self._broker.parked.pop(parked, None)
            if raw is not None:
                self._broker.reject(parked.kind, parked.slot, reason, raw)

    def waiting(self) -> Mapping[int, SlotBacklog]:
        """See `ParkingLot.waiting`."""
        with self._broker.lock:
            tags: dict[int, list[int]] = {}
            for each in self._broker.parked:
                tags.setdefault(each.slot, []).append(int(each.tag))
            now, since = self._broker.now(), self._broker.published
            return {
                slot: SlotBacklog(len(own), now - since(min(own))) for slot, own in tags.items()
            }

    def _park(self, move: ParkingMove, body: bytes, limit: int) -> bool:
        source = move.source
        if not self._is_there(source):
            return True
        held = sum(each.slot == source.slot for each in self._broker.parked)
        if 0 < limit <= held and isinstance(source, Delivery) and not move.target.taskid:
            return False
        if isinstance(source, Delivery):
            self._broker.remove((source.kind, source.slot), int(source.tag))
        else:
            self.remove([source])
        self.remove([move.replaced] if move.replaced else [])
        self._broker.parked[move.target] = body
        return True

    def _is_there(self, source: Delivery | Parked) -> bool:
        if isinstance(source, Parked):
            return source in self._broker.parked
        queue = (source.kind, source.slot)
        return int(source.tag) in self._broker.streams.get(queue, {})

    def _split(self, parked: Parked, tasks: Sequence[Any]) -> None:
        raws = list(map(encode, tasks))
        with self._broker.lock:
            if self._broker.parked.pop(parked, None) is not None:
                for raw in raws:
                    self._broker.append((parked.kind, parked.slot), raw)


class NoWorkQueues:
    """`WorkQueues` where these are in memory, and end with those who take."""

    def lengths(self) -> dict[str, int]:
        """See `WorkQueues.lengths`."""
        return dict.fromkeys(WORK_QUEUES, 0)

    def takers(self, _queue: str) -> set[str]:
        """See `WorkQueues.takers`."""
        return set()

    def give_back(self, _queue: str, _taker: str) -> int:
        """See `WorkQueues.give_back`."""
        return 0

    def under_way(self) -> list[dict[str, Any]]:
        """See `WorkQueues.under_way`."""
        return []


class MemoryHistory:
    """`TaskHistory` in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def add(self, adder: str, number: int, sums: Sums) -> None:
        """See `TaskHistory.add`."""
        with self._broker.lock:
            if self._broker.additions.get(adder) != number:
                self._broker.additions[adder] = number
                for key, each in sums.items():
                    self._broker.history[key].update(each)

    def read(self, keys: Sequence[str], fields: Sequence[str]) -> list[list[int]]:
        """See `TaskHistory.read`."""
        with self._broker.lock:
            return [[self._broker.history[key][field] for field in fields] for key in keys]


class MemoryLog:
    """`ClusterLog` in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def append(self, lines: Sequence[LogLine]) -> None:
        """See `ClusterLog.append`."""
        with self._broker.lock:
            self._broker.log.extend((f"{next(self._broker._tags)}-0", line) for line in lines)

    def latest(self, before: str, count: int) -> list[Entry]:
        """See `ClusterLog.latest`."""
        with self._broker.lock:
            latest = reversed(self._broker.log)
            return list(islice((each for each in latest if _is_before(each[0], before)), count))

    def behind(self, after: str, count: int) -> list[Entry]:
        """See `ClusterLog.behind`."""
        with self._broker.lock:
            kept = (each for each in self._broker.log if not after or _is_before(after, each[0]))
            return list(islice(kept, count))


def _is_before(tag: str, other: str) -> bool:
    return not other or int(tag.partition("-")[0]) < int(other.partition("-")[0])


class MemoryWakeUps:
    """`WakeUps` in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._seen = 0

    def wait(self, seconds: float) -> set[SlotQueue]:
        """See `WakeUps.wait`."""
        woken = self._broker.woken
        with self._broker.grown:
            self._broker.grown.wait_for(lambda: len(woken) > self._seen, seconds)
            new = set(woken[self._seen :])
            self._seen = len(woken)
        return new
