"""The inbox in Redis: pyspider's lists, moved to the slot queues message by message.

Any number of members forward at once, so a message is popped by its value: the script that
moves it first compares the head of the list with the bytes that the mover read. The second mover
finds another head and does nothing. Equal bytes have equal targets, so it does not matter which of
two equal messages is moved.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from pyspider_zk.queues import caps
from pyspider_zk.queues.names import QueueKind, slot_queue
from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import (
    DEAD_LETTER_LIMIT,
    DEAD_LETTERS,
    SLOT_WAKE_UPS,
    RedisLink,
    ready_key,
)
from pyspider_zk.queues.redis_wake_ups import LATEST
from pyspider_zk.queues.routing import RoutedMessage, route

BATCH = 100  # messages per round trip

log = logging.getLogger(__name__)

# KEYS: list, dead letters   ARGV: messages, bytes of all, of one, that are kept, letters, kind
# A message that is larger than it may be is cut and rejected here, once it is the head: it is not
# even sent.
_LOOK = """
local room, found = tonumber(ARGV[2]), {}
redis.call('XLEN', KEYS[2])
for i = 0, tonumber(ARGV[1]) - 1 do
  local raw = redis.call('LINDEX', KEYS[1], i)
  if not raw or room <= 0 then break end
  if #raw > tonumber(ARGV[3]) then
    if i == 0 then
      local why = 'has ' .. #raw .. ' bytes, the limit is ' .. ARGV[3] .. '; this is the beginning'
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'reason', why, 'kind', ARGV[6],
                 'body', string.sub(raw, 1, ARGV[4]))
      redis.call('LPOP', KEYS[1])
    end
    break
  end
  found[#found + 1] = raw
  room = room - #raw
end
return found
"""

# KEYS: list, ready, dead letters, wake-ups, stream...
# ARGV: raw, kind, limit of a stream, of the dead letters, wake-ups that are kept,
#       number of parts, slot per stream, (number of its stream, body) per part,
#       (reason, body) per rejected task
_MOVE = """
local streams, woken = #KEYS - 4, {}
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
local limit = tonumber(ARGV[3])
redis.call('SCARD', KEYS[2])
redis.call('XLEN', KEYS[3])
redis.call('XLEN', KEYS[4])
for i = 1, streams do
  local length = redis.call('XLEN', KEYS[4 + i])
  if limit > 0 and length >= limit then return 0 end
end
local first = 7 + streams
local last = first + 2 * tonumber(ARGV[6])
for i = first, last - 1, 2 do
  redis.call('XADD', KEYS[4 + tonumber(ARGV[i])], '*', 'body', ARGV[i + 1])
end
for i = 1, streams do
  if redis.call('SADD', KEYS[2], ARGV[6 + i]) == 1 then woken[#woken + 1] = KEYS[4 + i] end
end
if #woken > 0 then
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[5], '*', 'queues', table.concat(woken, ','))
end
for i = last, #ARGV, 2 do
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[4], '*',
             'reason', ARGV[i], 'kind', ARGV[2], 'body', ARGV[i + 1])
end
redis.call('LPOP', KEYS[1])
return 1
"""


@dataclass(frozen=True)
class Forwarding:
    """One message of the inbox and where it goes."""

    kind: QueueKind
    raw: bytes
    route: RoutedMessage


class RedisInbox:
    """`Inbox` in Redis 6.2 or later.

    Args:
        link: where.
        slots: how many slots the cluster has.
        limit: the most messages of one slot queue; 0: no limit.
        foreign_keys: renames foreign keys.
    """

    def __init__(
        self, link: RedisLink, slots: int, limit: int = 0, foreign_keys: ForeignKeys | None = None
    ) -> None:
        self._foreign_keys = foreign_keys or ForeignKeys(link)
        self._slots = slots
        self._limit = limit

    def forward(self, limit: int) -> int:
        """See `Inbox.forward`; one command if the inbox is empty, else three round trips."""
        moves = self.plan(limit)
        return self.perform(moves)

    def plan(self, limit: int) -> list[Forwarding]:
        """Return the moves of the first `limit` messages of each kind.

        Changes nothing, except that a first message that is too large becomes a dead letter.
        """
        if limit < 1:
            return []  # LRANGE 0 -1 would be all

        def look(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for kind in QueueKind:
                about = [limit, caps.ROUND, caps.MESSAGE, caps.KEPT, DEAD_LETTER_LIMIT, kind.value]
                pipe.eval(_LOOK, 2, kind.value, DEAD_LETTERS, *about)
            return pipe.execute()

        if not self._foreign_keys.run(_lists, lambda it: it.exists(*_lists())):
            return []
        lists = self._foreign_keys.run(lambda: {DEAD_LETTERS: "stream", **_lists()}, look)
        return [
            Forwarding(kind, raw, route(kind, raw, self._slots))
            for kind, raws in zip(QueueKind, lists, strict=True)
            for raw in raws
        ]

    def perform(self, moves: Sequence[Forwarding]) -> int:
        """Carry out the moves whose message is still the head of its list; return how many.

        Works in batches and stops after one in which something did not move, because of another
        mover or a full slot queue.
        """
        total = 0
        for start in range(0, len(moves), BATCH):
            batch = moves[start : start + BATCH]
            done = self._perform(batch)
            total += done
            if done < len(batch):
                break
        return total

    def lengths(self) -> Mapping[QueueKind, int]:
        """See `Inbox.lengths`."""

        def look(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for kind in QueueKind:
                pipe.llen(kind.value)
            return pipe.execute()

        return dict(zip(QueueKind, self._foreign_keys.run(_lists, look), strict=True))

    def _perform(self, batch: Sequence[Forwarding]) -> int:
        done = self._foreign_keys.run(lambda: _keys(batch), lambda it: self._carry_out(it, batch))
        for move, moved in zip(batch, done, strict=True):
            for reason, body in move.route.rejected if moved else ():
                log.warning("rejected %d bytes from %s: %s", len(body), move.kind.value, reason)
        return sum(done)

    def _carry_out(self, client: redis.Redis, batch: Sequence[Forwarding]) -> list[int]:
        """Carry out the moves; after a foreign key was found, skip those already done."""
        pipe: Any = client.pipeline(transaction=False)
        for move in batch:
            self._queue(pipe, move)
        done: list[int] = pipe.execute()
        return done

    def _queue(self, pipe: Any, move: Forwarding) -> None:
        parts = move.route.parts
        streams = [slot_queue(move.kind, slot) for slot in parts]
        keys = [move.kind.value, ready_key(move.kind), DEAD_LETTERS, SLOT_WAKE_UPS, *streams]
        arguments = [move.raw, move.kind.value, self._limit, DEAD_LETTER_LIMIT, LATEST]
        placed = [(at, raw) for at, own in enumerate(parts.values(), 1) for raw in own]
        pairs = [item for pair in (*placed, *move.route.rejected) for item in pair]
        pipe.eval(_MOVE, len(keys), *keys, *arguments, len(placed), *parts, *pairs)


def _lists() -> dict[str, str]:
    """Return the type of each key that stock components fill."""
    return {kind.value: "list" for kind in QueueKind}


def _keys(moves: Sequence[Forwarding]) -> dict[str, str]:
    """Return the type that each key of these moves must have."""
    streams = {slot_queue(move.kind, slot): "stream" for move in moves for slot in move.route.parts}
    ready = {ready_key(kind): "set" for kind in QueueKind}
    more = {DEAD_LETTERS: "stream", SLOT_WAKE_UPS: "stream"}
    return {**_lists(), **ready, **more, **streams}
