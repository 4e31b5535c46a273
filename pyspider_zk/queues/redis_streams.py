"""Slot queues in Redis: one stream per queue that ever held something.

An entry is deleted when acknowledged, so a stream holds what is unread or not acknowledged,
and a plain XREAD from the right entry is all a reader needs; consumer groups would only add
state that can go wrong (an XREADGROUP whose reply is lost, or sent by an owner that just lost
the slot, hides messages until somebody claims them).

Beside the streams, one set per kind names the slots whose stream is not empty. Publishing adds
to it in the same transaction; a script removes a slot whose stream is empty. So a reader asks
for 16384 slots in the time of a few, and the lengths of all queues are cheap. The set may name
a slot too many, after a crash, but never one too few; and should somebody take a slot out of it by
hand, the owner finds it again, for each read looks into a few more of its streams.

A write to several keys is one script, which checks all of them before it writes: a key of another
type is found before anything is done, see `redis_foreign_keys`. A Redis out of memory refuses to
publish, and must still be able to delete.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis

from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import DeadLetter, Delivery, Message, SlotBacklog
from pyspider_zk.queues.backpressure import Backpressure, Wait
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.names import QueueKind, SlotQueue, slot_queue
from pyspider_zk.queues.offsets import Offsets, gather, tags_of, unpack
from pyspider_zk.queues.redis_dead_letters import RedisDeadLetters
from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import (
    DEAD_LETTER_LIMIT,
    DEAD_LETTERS,
    SLOT_WAKE_UPS,
    RedisLink,
    ready_key,
    slot_number,
)
from pyspider_zk.queues.redis_wake_ups import LATEST

STRAY = 1000  # names that one command takes out of it
FOUND_AGAIN = 64  # slots of a member that each read looks into whatever the set says

log = logging.getLogger(__name__)

_KINDS = list(QueueKind)

# KEYS: ready of each kind, wake-ups, stream...
# ARGV: wake-ups that are kept, (number of its ready key, slot) per stream,
#       (number of its stream, body) per message
# A slot that is ready already needs no wake-up: its owner reads until it finds nothing.
_PUBLISH = """
local streams = #KEYS - 3
redis.call('SCARD', KEYS[1])
redis.call('SCARD', KEYS[2])
redis.call('XLEN', KEYS[3])
for i = 1, streams do redis.call('XLEN', KEYS[3 + i]) end
for i = 2 * streams + 2, #ARGV, 2 do
  redis.call('XADD', KEYS[3 + tonumber(ARGV[i])], '*', 'body', ARGV[i + 1])
end
local lengths, woken = {}, {}
for i = 1, streams do
  if redis.call('SADD', KEYS[tonumber(ARGV[2 * i])], ARGV[2 * i + 1]) == 1 then
    woken[#woken + 1] = KEYS[3 + i]
  end
  lengths[i] = redis.call('XLEN', KEYS[3 + i])
end
if #woken > 0 then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[1], '*', 'queues', table.concat(woken, ','))
end
return lengths
"""

# KEYS: dead letters, ready, stream...
# ARGV: messages per stream, bytes of all, bytes of one, bytes that are kept, letters, kind,
#       (tag to read after, slot) per stream
# A message that is larger than it may be is cut and rejected here: it is not even sent. Small ones
# are fetched by several, after a large one the next alone, so that few large ones are in memory.
# It returns a flat list of tags and bodies per stream: a list per message takes as long again.
_READ = """
local room, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local found, rejected = {}, 0
local function size(fields)
  local sum = 0
  for i = 1, #fields do sum = sum + #fields[i] end
  return sum
end
local function body(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'body' then return fields[i + 1] end
  end
  return ''
end
redis.call('XLEN', KEYS[1])
redis.call('SCARD', KEYS[2])
for i = 3, #KEYS do
  local tag, slot = ARGV[1 + 2 * i], ARGV[2 + 2 * i]
  local left, entries, count = tonumber(ARGV[1]), {}, 1
  while left > 0 and room > 0 and tag ~= '18446744073709551615-18446744073709551615' do
    count = math.min(count, left)
    local some = redis.call('XRANGE', KEYS[i], '(' .. tag, '+', 'COUNT', count)
    local is_last = #some < count
    count = math.min(2 * count, 64)
    for _, entry in ipairs(some) do
      if room <= 0 then break end
      tag = entry[1]
      local bytes = size(entry[2])
      if bytes > 4096 then count = 1 end
      if bytes > most + 100 then
        local why = 'has ' .. bytes - 4 .. ' bytes, the limit is ' .. most
        why = why .. '; this is the beginning'
        local done = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*', 'reason', why,
          'kind', ARGV[6], 'slot', slot, 'body', string.sub(entry[2][#entry[2]], 1, ARGV[4]))
        if not done.err then
          redis.call('XDEL', KEYS[i], tag)
          if redis.call('XLEN', KEYS[i]) == 0 then redis.call('SREM', KEYS[2], slot) end
        end
        rejected = rejected + 1
      else
        entries[#entries + 1] = tag
        entries[#entries + 1] = body(entry[2])
        room, left = room - bytes, left - 1
      end
    end
    if is_last then break end
  end
  found[i - 2] = entries
end
return {rejected, found}
"""

# KEYS: ready   ARGV: name of the streams without the slot, slots
# One XREAD looks into all streams that should be empty, so an idle reader sends few commands. Their
# slots are one argument, for the client takes as long for each as Redis does for looking into it.
_FIND = """
local ready = redis.call('SMEMBERS', KEYS[1])
local known, slots, read = {}, {}, {'COUNT', 1, 'STREAMS'}
for _, slot in ipairs(ready) do known[slot] = true end
for slot in string.gmatch(ARGV[2], '%d+') do
  if not known[slot] then
    local stream = ARGV[1] .. slot
    slots[stream] = slot
    read[#read + 1] = stream
  end
end
local streams = #read - 3
if streams == 0 then return ready end
for _ = 1, streams do read[#read + 1] = '0' end
for _, found in ipairs(redis.call('XREAD', unpack(read)) or {}) do
  redis.pcall('SADD', KEYS[1], slots[found[1]])
  ready[#ready + 1] = slots[found[1]]
end
return ready
"""

# KEYS: ready, stream...   ARGV: slot...
_TIDY = """
for i = 2, #KEYS do
  if redis.call('XLEN', KEYS[i]) == 0 then redis.call('SREM', KEYS[1], ARGV[i - 1]) end
end
"""

# KEYS: stream, dead letters   ARGV: tag, reason, kind, slot, limit
_BURY = """
redis.call('XLEN', KEYS[2])
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*',
           'reason', ARGV[2], 'kind', ARGV[3], 'slot', ARGV[4], 'body', found[1][2][2])
redis.call('XDEL', KEYS[1], ARGV[1])
"""


# KEYS: stream, ready   ARGV: tag, slot, body...
_SPLIT = """
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return end
redis.call('SADD', KEYS[2], ARGV[2])
for i = 3, #ARGV do redis.call('XADD', KEYS[1], '*', 'body', ARGV[i]) end
redis.call('XDEL', KEYS[1], ARGV[1])
"""


class RedisSlotQueues:
    """`SlotQueues` in Redis 6.2 or later.

    Args:
        link: where.
        limit: the most messages of one slot queue; 0: no limit.
        wait: waits that many seconds for room; by default until then or `close`.
        foreign_keys: renames foreign keys.
    """

    def __init__(
        self,
        link: RedisLink,
        limit: int = 0,
        wait: Wait | None = None,
        foreign_keys: ForeignKeys | None = None,
    ) -> None:
        self._link = link
        self._foreign_keys = foreign_keys or ForeignKeys(link)
        self._room = Backpressure(limit, self._measure, wait)
        self._positions = Offsets()
        self._dead_letters = RedisDeadLetters(link, self._foreign_keys)
        self._owed: list[
            Delivery
        ] = []  # applied, but Redis was unavailable when it should delete them

    def publish(self, messages: Sequence[Message]) -> None:
        """See `SlotQueues.publish`."""
        bodies = [encode(message.body) for message in messages]
        queues = list(dict.fromkeys((message.kind, message.slot) for message in messages))
        self._room.wait_for(queues)
        if not messages:
            return
        streams = (slot_queue(*queue) for queue in queues)
        keys = [*map(ready_key, QueueKind), SLOT_WAKE_UPS, *streams]
        places: list[Any] = [LATEST]
        places += [item for kind, slot in queues for item in (_KINDS.index(kind) + 1, slot)]
        number = {queue: index for index, queue in enumerate(queues, 1)}
        for message, body in zip(messages, bodies, strict=True):
            places += [number[message.kind, message.slot], body]
        lengths: Any = self._foreign_keys.run(
            lambda: _types(queues), lambda it: it.eval(_PUBLISH, len(keys), *keys, *places)
        )
        self._room.note(dict(zip(queues, lengths, strict=True)))

    def full(self, kind: QueueKind, slot: int) -> bool:
        """See `SlotQueues.full`."""
        return self._room.full([(kind, slot)])

    def take(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.take`."""
        self._positions.take(slots)

    def drop(self, slots: Iterable[int]) -> None:
        """See `SlotQueues.drop`."""
        self._positions.drop(slots)

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

        def look(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for slot, tag in after.items():
                pipe.xrange(slot_queue(kind, slot), f"({tag}", count=1)
            return pipe.execute()

        found = self._foreign_keys.run(lambda: _types([(kind, slot) for slot in after]), look)
        return {
            slot: first[0][0].decode() for slot, first in zip(after, found, strict=True) if first
        }

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """See `SlotQueues.acknowledge`."""
        self._owed += deliveries
        if not self._owed:
            return
        tags = tags_of(self._owed)

        def delete(client: redis.Redis) -> None:
            pipe: Any = client.pipeline(transaction=False)
            for queue, own in tags.items():
                pipe.xdel(slot_queue(*queue), *own)
            _tidy(pipe, tags)
            pipe.execute()

        self._foreign_keys.run(lambda: _types(tags), delete)
        self._positions.acknowledged(tags)
        self._owed = []

    def reject(self, delivery: Delivery, reason: str) -> None:
        """See `SlotQueues.reject`."""
        kind, slot = delivery.kind, delivery.slot
        reason = brief(reason)
        about = [delivery.tag, reason, kind.value, slot, DEAD_LETTER_LIMIT]

        def move(client: redis.Redis) -> None:
            pipe: Any = client.pipeline(transaction=False)
            pipe.eval(_BURY, 2, slot_queue(kind, slot), DEAD_LETTERS, *about)
            _tidy(pipe, [(kind, slot)])
            pipe.execute()

        self._foreign_keys.run(lambda: {DEAD_LETTERS: "stream", **_types([(kind, slot)])}, move)
        self._dead_letters.trim()
        self._positions.acknowledged({(kind, slot): [delivery.tag]})
        log.warning(
            "message %s of %s is a dead letter: %s", delivery.tag, slot_queue(kind, slot), reason
        )

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `SlotQueues.lengths`."""
        queues = [(kind, slot) for kind, slots in self._ready(QueueKind).items() for slot in slots]
        lengths = self._measure(queues)
        return {
            kind: sum(n for (its, _), n in lengths.items() if its is kind) for kind in QueueKind
        }

    def backlog(self) -> Mapping[SlotQueue, SlotBacklog]:
        """See `SlotQueues.backlog`; the times are those in the names of the entries."""
        self._foreign_keys.look()
        queues = [(kind, slot) for kind, slots in self._ready(QueueKind).items() for slot in slots]

        def look(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            pipe.time()
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
                pipe.xrange(slot_queue(*queue), count=1)
            return pipe.execute()

        (seconds, micros), *replies = self._foreign_keys.run(lambda: _types(queues), look)
        looks = zip(queues, replies[::2], replies[1::2], strict=True)
        now = seconds + micros / 1e6
        return {
            queue: SlotBacklog(length, max(0.0, now - _published(first[0][0])))
            for queue, length, first in looks
            if length and first
        }

    def unreadable(self) -> Mapping[str, str]:
        """See `SlotQueues.unreadable`."""
        return self._foreign_keys.reported()

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

    def _ready(self, kinds: Iterable[QueueKind]) -> dict[QueueKind, set[int]]:
        kinds = list(kinds)

        def ask(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for kind in kinds:
                pipe.smembers(ready_key(kind))
            return pipe.execute()

        replies = self._foreign_keys.run(lambda: _types([]), ask)
        return {kind: self._slots(kind, names) for kind, names in zip(kinds, replies, strict=True)}

    def _find(self, kind: QueueKind) -> set[int]:
        """Return the ready slots, including those that are missing in the ready set."""
        slots = self._positions.look_into(kind, FOUND_AGAIN)
        streams = (f"{kind.value}:", ",".join(map(str, slots)))
        names: Any = self._foreign_keys.run(
            lambda: _types([(kind, slot) for slot in slots]),
            lambda it: it.eval(_FIND, 1, ready_key(kind), *streams),
        )
        return self._slots(kind, names)

    def _slots(self, kind: QueueKind, names: Iterable[bytes]) -> set[int]:
        """Return the slots of their names; other names are removed, because they mean nothing."""
        slots = {name: slot_number(name) for name in names}
        stray = [name for name, slot in slots.items() if slot is None]
        if stray:
            log.warning(
                "took %d names that are no slots out of %s: %.100r",
                len(stray),
                ready_key(kind),
                stray[:3],
            )
            with suppress(Unavailable), self._link.client() as client:
                for start in range(0, len(stray), STRAY):
                    client.srem(ready_key(kind), *stray[start : start + STRAY])
        return {slot for slot in slots.values() if slot is not None}

    def _fetch(
        self, kind: QueueKind, after: Mapping[int, str], count: int, room: int
    ) -> dict[int, list[tuple[str, bytes]]]:
        if room <= 0:
            return {}
        keys = [DEAD_LETTERS, ready_key(kind), *(slot_queue(kind, slot) for slot in after)]
        places = [str(item) for slot, tag in after.items() for item in (tag, slot)]
        about = [count, room, caps.MESSAGE, caps.KEPT, DEAD_LETTER_LIMIT, kind.value]
        reply: Any = self._foreign_keys.run(
            lambda: {DEAD_LETTERS: "stream", **_types([(kind, slot) for slot in after])},
            lambda it: it.eval(_READ, len(keys), *keys, *about, *places),
        )
        rejected, batches = reply
        if rejected:
            log.warning("rejected %d messages of %s: they are too large", rejected, kind.value)
            self._dead_letters.trim()
        return {
            slot: [(tag.decode(), body) for tag, body in zip(flat[::2], flat[1::2], strict=True)]
            for slot, flat in zip(after, batches, strict=True)
            if flat
        }

    def _split(self, delivery: Delivery) -> None:
        kind, slot = delivery.kind, delivery.slot
        bodies = [encode(task) for task in delivery.body]
        with self._link.client() as client:
            keys = (slot_queue(kind, slot), ready_key(kind))
            client.eval(_SPLIT, len(keys), *keys, delivery.tag, slot, *bodies)

    def _measure(self, queues: Collection[SlotQueue]) -> dict[SlotQueue, int]:
        def ask(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for queue in queues:
                pipe.xlen(slot_queue(*queue))
            return pipe.execute()

        return dict(zip(queues, self._foreign_keys.run(lambda: _types(queues), ask), strict=True))


def _types(queues: Iterable[SlotQueue]) -> dict[str, str]:
    """Return the type that each of these keys, and the sets with them, must have."""
    return {
        **dict.fromkeys(map(ready_key, QueueKind), "set"),
        SLOT_WAKE_UPS: "stream",
        **{slot_queue(*queue): "stream" for queue in queues},
    }


def _published(tag: bytes) -> float:
    """Return when Redis took an entry, in seconds since the epoch, on its own clock."""
    return int(tag.partition(b"-")[0]) / 1000


def _tidy(pipe: Any, queues: Iterable[SlotQueue]) -> None:
    slots: dict[QueueKind, list[int]] = {}
    for kind, slot in queues:
        slots.setdefault(kind, []).append(slot)
    for kind, own in slots.items():
        streams = [slot_queue(kind, slot) for slot in own]
        pipe.eval(_TIDY, len(streams) + 1, ready_key(kind), *streams, *own)
