"""Slot queues in Redis: one stream per queue that ever held something.

An entry is deleted when acknowledged, so a stream holds what is unread or not acknowledged,
and a plain range from the right entry on is all a reader needs; consumer groups would only add
state that can go wrong (an XREADGROUP whose reply is lost, or sent by an owner that just lost
the slot, hides messages until somebody claims them).

Beside the streams, one set per kind names the slots whose stream is not empty. Publishing adds
to it in the same transaction; a script removes a slot whose stream is empty. So a reader asks
for 16384 slots in the time of a few, and the lengths of all queues are cheap. The set may name
a slot too many, after a crash, but never one too few; and should somebody take a slot out of it by
hand, the owner finds it again, for each read looks into a few more of its streams.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import DeadLetter, Delivery, Message, SlotBacklog
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.names import (
    DEAD_LETTERS,
    SLOT_WAKE_UPS,
    QueueKind,
    SlotQueue,
    ready_key,
    slot_number,
    slot_queue,
)
from pyspider_zk.queues.redis_dead_letters import RedisDeadLetters, seconds_of
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.redis_wake_ups import LATEST
from pyspider_zk.queues.slot_queues import CommonSlotQueues, Wait, gather, tags_of, unpack

STRAY = 1000  # names that one command takes out of it
FOUND_AGAIN = 64  # slots of a member that each read looks into whatever the set says

log = logging.getLogger(__name__)

_KINDS = list(QueueKind)
_PUBLISH, _READ, _FIND = script("publish"), script("read"), script("find")
_TIDY, _BURY, _SPLIT = script("tidy"), script("bury"), script("split")


class RedisSlotQueues(CommonSlotQueues):
    """`SlotQueues` in Redis 6.2 or later."""

    def __init__(self, keys: TypedKeys, limit: int, wait: Wait | None) -> None:
        super().__init__(limit, wait)
        self._keys = keys
        self._dead_letters = RedisDeadLetters(keys)
        self._owed: list[Delivery] = []  # applied, but Redis was away when it should delete them

    def publish(self, messages: Sequence[Message]) -> None:
        """See `SlotQueues.publish`."""
        bodies = [encode(message.body) for message in messages]
        queues = list(dict.fromkeys((message.kind, message.slot) for message in messages))
        self._room.wait_for(queues)
        if not messages:
            return
        places = [item for kind, slot in queues for item in (_KINDS.index(kind) + 1, slot)]
        number = {queue: index for index, queue in enumerate(queues, 1)}
        parts: list[Any] = []
        for message, body in zip(messages, bodies, strict=True):
            parts += [number[message.kind, message.slot], body]
        lengths = self._keys.eval(_PUBLISH, _types(queues), LATEST, *places, *parts)
        self._room.note(dict(zip(queues, lengths, strict=True)))

    def read(
        self, kind: QueueKind, limit: int, ready: Collection[int] | None = None
    ) -> list[Delivery]:
        """See `SlotQueues.read`; one round trip to find what is ready, one or two to read it."""
        self.acknowledge([])  # otherwise a read-only Redis would be read to the end
        turn = self._positions.turn(kind, self._find(kind) if ready is None else ready, limit)
        room = caps.ROUND

        def fetch(after: Mapping[int, str], count: int) -> dict[int, list[tuple[str, bytes]]]:
            nonlocal room
            batches = self._fetch(kind, after, count, room)
            room -= sum(len(body) for batch in batches.values() for _, body in batch)
            return batches

        found = gather(fetch, turn, limit)
        deliveries = unpack(kind, found, self.reject, self._split)
        self._positions.delivered(tags_of(deliveries))
        return deliveries

    def unread(self, kind: QueueKind, slots: Iterable[int]) -> Mapping[int, str]:
        """See `SlotQueues.unread`."""
        after = self._positions.after(kind, slots)

        def look(pipe: Any) -> None:
            for slot, tag in after.items():
                pipe.xrange(slot_queue(kind, slot), f"({tag}", count=1)

        found = self._keys.pipelined(_types([(kind, slot) for slot in after]), look)
        return {
            slot: first[0][0].decode() for slot, first in zip(after, found, strict=True) if first
        }

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """See `SlotQueues.acknowledge`."""
        self._owed += deliveries
        if not self._owed:
            return
        tags = tags_of(self._owed)

        def delete(pipe: Any) -> None:
            for queue, own in tags.items():
                pipe.xdel(slot_queue(*queue), *own)
            _tidy(pipe, tags)

        self._keys.pipelined(_types(tags), delete)
        self._positions.acknowledged(tags)
        self._owed = []

    def reject(self, delivery: Delivery, reason: str) -> None:
        """See `SlotQueues.reject`."""
        queue, reason = (delivery.kind, delivery.slot), brief(reason)
        about = [delivery.tag, reason, delivery.kind.value, delivery.slot, caps.LETTERS]

        def move(pipe: Any) -> None:
            pipe.eval(_BURY, 2, slot_queue(*queue), DEAD_LETTERS, *about)
            _tidy(pipe, [queue])

        self._keys.pipelined({DEAD_LETTERS: "stream", **_types([queue])}, move)
        self._dead_letters.trim()
        self._positions.acknowledged({queue: [delivery.tag]})
        log.warning(
            "message %s of %s is a dead letter: %s", delivery.tag, slot_queue(*queue), reason
        )

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `SlotQueues.lengths`."""
        sums = dict.fromkeys(QueueKind, 0)
        for (kind, _), length in self._measure(self._ready()).items():
            sums[kind] += length
        return sums

    def backlog(self) -> Mapping[SlotQueue, SlotBacklog]:
        """See `SlotQueues.backlog`; the times are those in the names of the entries."""
        self._keys.look()
        queues = self._ready()

        def look(pipe: Any) -> None:
            pipe.time()
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
                pipe.xrange(slot_queue(*queue), count=1)

        (seconds, micros), *replies = self._keys.pipelined(_types(queues), look)
        now = seconds + micros / 1e6
        return {
            queue: SlotBacklog(length, max(0.0, now - seconds_of(first[0][0])))
            for queue, length, first in zip(queues, replies[::2], replies[1::2], strict=True)
            if length and first
        }

    def unreadable(self) -> Mapping[str, str]:
        """See `SlotQueues.unreadable`."""
        return self._keys.reported()

    def dead(self) -> int:
        """See `SlotQueues.dead`."""
        return self._dead_letters.count()

    def dead_letters(self, limit: int, skipped: int = 0) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        return self._dead_letters.latest(limit, skipped)

    def dead_letter_tags(self, until: str | None = None) -> list[str]:
        """See `SlotQueues.dead_letter_tags`."""
        return self._dead_letters.tags(until)

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`."""
        return self._dead_letters.replay(tags)

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`."""
        return self._dead_letters.discard(tags)

    def close(self) -> None:
        """See `SlotQueues.close`."""
        self._room.close()
        self._keys.link.close()

    def _ready(self) -> list[SlotQueue]:
        replies = self._keys.pipelined(
            _types([]), lambda pipe: [pipe.smembers(ready_key(kind)) for kind in QueueKind]
        )
        return [
            (kind, slot)
            for kind, names in zip(QueueKind, replies, strict=True)
            for slot in self._slots(kind, names)
        ]

    def _find(self, kind: QueueKind) -> set[int]:
        """Return the ready slots, including those that are missing in the ready set."""
        slots = self._positions.look_into(kind, FOUND_AGAIN)
        streams = (f"{kind.value}:", ",".join(map(str, slots)))
        names = self._keys.run(
            _types([(kind, slot) for slot in slots]),
            lambda it: it.eval(_FIND, 1, ready_key(kind), *streams),
        )
        return self._slots(kind, names)

    def _slots(self, kind: QueueKind, names: Iterable[bytes]) -> set[int]:
        """Return the slots of their names; other names are removed, because they mean nothing."""
        slots = {name: slot_number(name) for name in names}
        stray = [name for name, slot in slots.items() if slot is None]
        if stray:
            key = ready_key(kind)
            log.warning(
                "took %d names that are no slots out of %s: %.100r", len(stray), key, stray[:3]
            )
            with suppress(Unavailable), self._keys.link.client() as client:
                for start in range(0, len(stray), STRAY):
                    client.srem(key, *stray[start : start + STRAY])
        return {slot for slot in slots.values() if slot is not None}

    def _fetch(
        self, kind: QueueKind, after: Mapping[int, str], count: int, room: int
    ) -> dict[int, list[tuple[str, bytes]]]:
        if room <= 0:
            return {}
        types = {DEAD_LETTERS: "stream", ready_key(kind): "set"}
        types |= {slot_queue(kind, slot): "stream" for slot in after}
        places = [str(item) for slot, tag in after.items() for item in (tag, slot)]
        about = [count, room, caps.MESSAGE, caps.KEPT, caps.LETTERS, kind.value]
        rejected, batches = self._keys.eval(_READ, types, *about, *places)
        if rejected:
            log.warning("rejected %d messages of %s: they are too large", rejected, kind.value)
            self._dead_letters.trim()
        return {
            slot: [(tag.decode(), body) for tag, body in zip(flat[::2], flat[1::2], strict=True)]
            for slot, flat in zip(after, batches, strict=True)
            if flat
        }

    def _split(self, delivery: Delivery) -> None:
        types = {
            slot_queue(delivery.kind, delivery.slot): "stream",
            ready_key(delivery.kind): "set",
        }
        about = (delivery.tag, delivery.slot)
        self._keys.eval(_SPLIT, types, *about, *map(encode, delivery.body))

    def _measure(self, queues: Collection[SlotQueue]) -> dict[SlotQueue, int]:
        lengths = self._keys.pipelined(
            _types(queues), lambda pipe: [pipe.xlen(slot_queue(*queue)) for queue in queues]
        )
        return dict(zip(queues, lengths, strict=True))


def _types(queues: Iterable[SlotQueue]) -> dict[str, str]:
    """Return the type that the sets, the stream of wake-ups, and each of these keys must have."""
    return {
        **dict.fromkeys(map(ready_key, QueueKind), "set"),
        SLOT_WAKE_UPS: "stream",
        **{slot_queue(*queue): "stream" for queue in queues},
    }


def _tidy(pipe: Any, queues: Iterable[SlotQueue]) -> None:
    slots: dict[QueueKind, list[int]] = {}
    for kind, slot in queues:
        slots.setdefault(kind, []).append(slot)
    for kind, own in slots.items():
        streams = [slot_queue(kind, slot) for slot in own]
        pipe.eval(_TIDY, len(streams) + 1, ready_key(kind), *streams, *own)
