"""What slot queues in Redis and in memory have in common: offsets, fair reading, backpressure.

A queue holds exactly what is not acknowledged yet, in order. So all that a reader must
remember is how far it has read the queues of which something is not acknowledged; in all
others it starts at the oldest message. There is nothing to claim from a former owner, and a
reader that lost its slot without knowing takes nothing from the next.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.queues.api import Delivery, Parked
from pyspider_zk.queues.codec import decode, decode_delivered
from pyspider_zk.queues.names import QueueKind, SlotQueue

OLDEST = "0"  # a tag before all tags
PAUSE = 0.1  # seconds between two checks of a full queue

Found = tuple[int, str, bytes]  # slot, tag, body
Wait = Callable[[float], object]
Fetch = Callable[[Mapping[int, str], int], Mapping[int, Sequence[tuple[str, bytes]]]]


class Offsets:
    """Offsets of this process. Threads: one. Never blocks."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._order: list[int] = []  # of them, sorted
        self._read_to: dict[SlotQueue, str] = {}
        self._open: dict[SlotQueue, set[str]] = {}
        self._turn: dict[QueueKind, int] = {}
        self._looked: dict[QueueKind, int] = {}

    def take(self, slots: Iterable[int]) -> None:
        """Read these slots, from the oldest message on."""
        slots = set(slots)
        self._forget(slots)
        self._taken |= slots
        self._order = sorted(self._taken)

    def drop(self, slots: Iterable[int]) -> None:
        """Stop reading these slots."""
        slots = set(slots)
        self._forget(slots)
        self._taken -= slots
        self._order = sorted(self._taken)

    def turn(self, kind: QueueKind, ready: Iterable[int], limit: int) -> dict[int, str]:
        """Return the next slots to read, at most `limit`, each with the tag to read after."""
        slots = sorted(self._taken.intersection(ready))
        start = bisect_right(slots, self._turn.get(kind, -1))
        chosen = (slots[start:] + slots[:start])[: max(limit, 0)]
        if chosen:
            # All had a turn: move on by one, or the same few always get the remainder.
            self._turn[kind] = chosen[-1] if len(chosen) < len(slots) else chosen[0]
        return self.after(kind, chosen)

    def after(self, kind: QueueKind, slots: Iterable[int]) -> dict[int, str]:
        """Return for each slot the tag to read after."""
        return {slot: self._read_to.get((kind, slot), OLDEST) for slot in slots}

    def look_into(self, kind: QueueKind, count: int) -> list[int]:
        """Return the next `count` of the taken slots, in turn, all of them after some calls."""
        start = bisect_right(self._order, self._looked.get(kind, -1))
        chosen = self._order[start : start + count]
        self._looked[kind] = chosen[-1] if start + count < len(self._order) else -1
        return chosen

    def delivered(self, tags: Mapping[SlotQueue, Sequence[str]]) -> None:
        """Remember messages, in order, as read and not acknowledged."""
        for queue, own in tags.items():
            self._open.setdefault(queue, set()).update(own)
            self._read_to[queue] = own[-1]

    def acknowledged(self, tags: Mapping[SlotQueue, Sequence[str]]) -> None:
        """Forget messages that are gone from their queues."""
        for queue, own in tags.items():
            unfinished = self._open.get(queue, set())
            unfinished.difference_update(own)
            if not unfinished:
                self._open.pop(queue, None)
                self._read_to.pop(queue, None)

    def _forget(self, slots: Iterable[int]) -> None:
        for queue in [(kind, slot) for slot in slots for kind in QueueKind]:
            self._read_to.pop(queue, None)
            self._open.pop(queue, None)


class Backpressure:
    """Remembers which slot queues are at their limit, and waits for room, as ``lazy_limit`` does.

    Every publish returns lengths. Only a queue that was at the limit then is
    measured again. Threads: any.
    """

    def __init__(
        self,
        limit: int,
        measure: Callable[[Collection[SlotQueue]], Mapping[SlotQueue, int]],
        wait: Wait | None = None,
    ) -> None:
        self._limit = limit
        self._measure = measure
        self._closed = Event()
        self._wait = self._closed.wait if wait is None else wait
        self._known: dict[SlotQueue, int] = {}

    def note(self, lengths: Mapping[SlotQueue, int]) -> None:
        """Remember lengths that a publish returned."""
        if self._limit:
            self._known.update(lengths)

    def full(self, queues: Collection[SlotQueue]) -> bool:
        """Return whether one of the queues is at its limit."""
        suspects = self._at_limit(queues)
        if suspects:
            self.note(self._measure(suspects))
        return bool(self._at_limit(suspects))

    def wait_for(self, queues: Collection[SlotQueue]) -> None:
        """Block until each of the queues is below its limit.

        Raises:
            Unavailable: after `close`.
        """
        self._check_open()
        while self.full(queues):
            self._wait(PAUSE)
            self._check_open()

    def close(self) -> None:
        """Wake all waiters; nothing can be published any more."""
        self._closed.set()

    def _at_limit(self, queues: Collection[SlotQueue]) -> list[SlotQueue]:
        if not self._limit:
            return []
        return [queue for queue in queues if self._known.get(queue, 0) >= self._limit]

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise Unavailable("the message queue was closed by this process")


class CommonSlotQueues:
    """What the `SlotQueues` of each kind of message queue have in common.

    Args:
        limit: the most messages of one slot queue; 0: no limit.
        wait: waits that many seconds for room; by default until then or `close`.
    """

    def __init__(self, limit: int, wait: Wait | None) -> None:
        self._room = Backpressure(limit, self._measure, wait)
        self._positions = Offsets()

    def full(self, kind: QueueKind, slot: int) -> bool:
        """See `SlotQueues.full`."""
        return self._room.full([(kind, slot)])

    def take(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.take`."""
        self._positions.take(slots)

    def drop(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.drop`."""
        self._positions.drop(slots)

    def _measure(self, queues: Collection[SlotQueue]) -> dict[SlotQueue, int]:
        """Return the lengths of queues."""
        raise NotImplementedError


def tags_of(deliveries: Iterable[Delivery]) -> dict[SlotQueue, list[str]]:
    """Return the tags of messages by queue, in order."""
    tags: dict[SlotQueue, list[str]] = {}
    for each in deliveries:
        tags.setdefault((each.kind, each.slot), []).append(each.tag)
    return tags


def unpack(
    kind: QueueKind,
    found: Iterable[Found],
    reject: Callable[[Delivery, str], None],
    split: Callable[[Delivery], None],
) -> list[Delivery]:
    """Return messages as deliveries; those that cannot be read become dead letters.

    If that fails now, they are found again later. They must not block the others: a Redis out of
    memory accepts no dead letter until some messages are acknowledged.

    Args:
        split: puts a message of each task in the place of a list, as it was published before;
            raises BadMessage if one is too large then: what is read may take more room as it is
            written again, such as a number of four bytes.
    """
    deliveries = []
    for slot, tag, raw in found:
        with suppress(Unavailable):
            try:
                delivery = Delivery(kind, slot, tag, *decode_delivered(kind, raw))
                if isinstance(delivery.body, list):
                    split(delivery)
                else:
                    deliveries.append(delivery)
            except BadMessage as error:
                reject(Delivery(kind, slot, tag, None), str(error))
    return deliveries


def unpack_parked(
    found: Iterable[tuple[Parked, bytes | None]],
    reject: Callable[[Parked, str], None],
    split: Callable[[Parked, Sequence[Any]], None],
) -> dict[Parked, Any]:
    """Return the bodies of parked messages that are still there; the others as `unpack` does."""
    bodies: dict[Parked, Any] = {}
    for parked, raw in found:
        if raw is None:
            continue
        with suppress(Unavailable):
            try:
                body = decode(raw)
                if isinstance(body, list):
                    split(parked, body)
                else:
                    bodies[parked] = body
            except BadMessage as error:
                reject(parked, str(error))
    return bodies


def gather(fetch: Fetch, after: Mapping[int, str], limit: int) -> list[Found]:
    """Fetch up to `limit` messages, in equal shares of the slots.

    Unused shares go to the slots that used all of theirs, so a few passes suffice, usually one or
    two. The last may fetch more than the limit; the excess is dropped and counts as unread.

    Args:
        fetch: returns for each slot at most `count` messages after its tag.
        after: the slots to read and the tag to read after, in order.
        limit: the most messages in all.
    """
    found: list[Found] = []
    while after and len(found) < limit:
        share = max(1, (limit - len(found)) // len(after))
        batches = fetch(after, share)
        found += [(slot, tag, body) for slot, batch in batches.items() for tag, body in batch]
        after = {slot: batch[-1][0] for slot, batch in batches.items() if len(batch) == share}
    return found[: max(limit, 0)]
