"""Slot queues in Redis: one stream per queue that ever held something.

An entry is deleted when acknowledged, so a stream holds what is unread or not acknowledged,
and a plain XREAD from the right entry is all a reader needs; consumer groups would only add
state that can go wrong (an XREADGROUP whose reply is lost, or sent by an owner that just lost
the slot, hides messages until somebody claims them).

Beside the streams, one set per kind names the slots whose stream is not empty. Publishing adds
to it in the same transaction; a script removes a slot whose stream is empty. So a reader asks
for 16384 slots in the time of a few, and the lengths of all queues are cheap. The set may name
a slot too many, after a crash, but never one too few.

Only publishing is a transaction: a Redis out of memory refuses every one, and must still be
able to delete.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspider_zk.core.alerts import Waiting
from pyspider_zk.core.names import Kind, slot_queue
from pyspider_zk.queues.api import DeadLetter, Delivery, Message
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.limits import Room, SlotQueue, Wait
from pyspider_zk.queues.reading import Positions, gather, unpack
from pyspider_zk.queues.redis_dead_letters import RedisDeadLetters
from pyspider_zk.queues.redis_link import (
    DEAD_LETTER_LIMIT,
    DEAD_LETTERS,
    RedisLink,
    ready_key,
)
from pyspider_zk.queues.routing import brief

log = logging.getLogger(__name__)

# KEYS: ready, stream...   ARGV: slot...
_TIDY = """
for i = 2, #KEYS do
  if redis.call('XLEN', KEYS[i]) == 0 then redis.call('SREM', KEYS[1], ARGV[i - 1]) end
end
"""

# KEYS: stream, dead letters   ARGV: tag, reason, kind, slot, limit
_BURY = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*',
           'reason', ARGV[2], 'kind', ARGV[3], 'slot', ARGV[4], 'body', found[1][2][2])
redis.call('XDEL', KEYS[1], ARGV[1])
"""


class RedisSlotQueues:
    """`SlotQueues` in Redis 6.2 or later.

    Args:
        link: where.
        limit: the most messages of one slot queue; 0: no limit.
        wait: waits that many seconds for room; by default until then or `close`.
    """

    def __init__(self, link: RedisLink, limit: int = 0, wait: Wait | None = None) -> None:
        self._link = link
        self._room = Room(limit, self._measure, wait)
        self._positions = Positions()
        self._dead_letters = RedisDeadLetters(link)
        self._owed: list[Delivery] = []  # applied, but Redis was away when it should delete them

    def publish(self, messages: Sequence[Message]) -> None:
        """See `SlotQueues.publish`."""
        bodies = [encode(message.body) for message in messages]
        queues = list(dict.fromkeys((message.kind, message.slot) for message in messages))
        self._room.wait_for(queues)
        if not messages:
            return
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=True)
            for message, body in zip(messages, bodies, strict=True):
                pipe.xadd(slot_queue(message.kind, message.slot), {"body": body})
            for kind, slot in queues:
                pipe.sadd(ready_key(kind), slot)
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
            lengths = pipe.execute()[-len(queues) :]
        self._room.note(dict(zip(queues, lengths, strict=True)))

    def full(self, kind: Kind, slot: int) -> bool:
        """See `SlotQueues.full`."""
        return self._room.full([(kind, slot)])

    def take(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.take`."""
        self._positions.take(slots)

    def drop(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.drop`."""
        self._positions.drop(slots)

    def read(self, kind: Kind, limit: int) -> list[Delivery]:
        """See `SlotQueues.read`; one round trip if there is nothing, else two or three."""
        self.acknowledge([])  # else a Redis that can be read only would be read to the end
        turn = self._positions.turn(kind, self._ready([kind])[kind], limit)
        found = gather(lambda after, count: self._fetch(kind, after, count), turn, limit)
        deliveries = unpack(kind, found, self.bury)
        self._positions.delivered(deliveries)
        return deliveries

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """See `SlotQueues.acknowledge`."""
        self._owed += deliveries
        if not self._owed:
            return
        tags: dict[SlotQueue, list[str]] = {}
        for delivery in self._owed:
            tags.setdefault((delivery.kind, delivery.slot), []).append(delivery.tag)
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for queue, own in tags.items():
                pipe.xdel(slot_queue(*queue), *own)
            _tidy(pipe, tags)
            pipe.execute()
        self._positions.acknowledged(self._owed)
        self._owed = []

    def bury(self, delivery: Delivery, reason: str) -> None:
        """See `SlotQueues.bury`."""
        kind, slot = delivery.kind, delivery.slot
        reason = brief(reason)
        about = [delivery.tag, reason, kind.value, slot, DEAD_LETTER_LIMIT]
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            pipe.eval(_BURY, 2, slot_queue(kind, slot), DEAD_LETTERS, *about)
            _tidy(pipe, [(kind, slot)])
            pipe.execute()
        self._positions.acknowledged([delivery])
        log.warning("buried message %s of %s: %s", delivery.tag, slot_queue(kind, slot), reason)

    def lengths(self) -> Mapping[Kind, int]:
        """See `SlotQueues.lengths`."""
        queues = [(kind, slot) for kind, slots in self._ready(Kind).items() for slot in slots]
        lengths = self._measure(queues)
        return {kind: sum(n for (its, _), n in lengths.items() if its is kind) for kind in Kind}

    def backlog(self) -> Mapping[SlotQueue, Waiting]:
        """See `SlotQueues.backlog`; the times are those in the names of the entries."""
        queues = [(kind, slot) for kind, slots in self._ready(Kind).items() for slot in slots]
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            pipe.time()
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
                pipe.xrange(slot_queue(*queue), count=1)
            (seconds, micros), *replies = pipe.execute()
        looks = zip(queues, replies[::2], replies[1::2], strict=True)
        now = seconds + micros / 1e6
        return {
            queue: Waiting(length, max(0.0, now - _published(first[0][0])))
            for queue, length, first in looks
            if length and first
        }

    def dead(self) -> int:
        """See `SlotQueues.dead`."""
        return self._dead_letters.count()

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        return self._dead_letters.latest(limit)

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`."""
        return self._dead_letters.replay(tags)

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`."""
        return self._dead_letters.discard(tags)

    def close(self) -> None:
        """See `SlotQueues.close`."""
        self._room.close()
        self._link.close()

    def _ready(self, kinds: Iterable[Kind]) -> dict[Kind, set[int]]:
        kinds = list(kinds)
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for kind in kinds:
                pipe.smembers(ready_key(kind))
            replies = pipe.execute()
        return {kind: set(map(int, reply)) for kind, reply in zip(kinds, replies, strict=True)}

    def _fetch(
        self, kind: Kind, after: Mapping[int, str], count: int
    ) -> dict[int, list[tuple[str, bytes]]]:
        streams: Any = {slot_queue(kind, slot): tag for slot, tag in after.items()}
        with self._link.client() as client:
            reply: Any = client.xread(streams, count=count)
        return {
            int(name.rpartition(b":")[2]): [
                (tag.decode(), fields.get(b"body", b"")) for tag, fields in entries
            ]
            for name, entries in reply
        }

    def _measure(self, queues: Collection[SlotQueue]) -> dict[SlotQueue, int]:
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
            return dict(zip(queues, pipe.execute(), strict=True))


def _published(tag: bytes) -> float:
    """Return when Redis took an entry, in seconds since the epoch, on its own clock."""
    return int(tag.partition(b"-")[0]) / 1000


def _tidy(pipe: Any, queues: Iterable[SlotQueue]) -> None:
    slots: dict[Kind, list[int]] = {}
    for kind, slot in queues:
        slots.setdefault(kind, []).append(slot)
    for kind, own in slots.items():
        streams = [slot_queue(kind, slot) for slot in own]
        pipe.eval(_TIDY, len(streams) + 1, ready_key(kind), *streams, *own)
