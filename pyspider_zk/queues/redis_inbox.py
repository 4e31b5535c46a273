"""The inbox in Redis: pyspider's lists, moved to the slot queues message by message.

Any number of members forward at once, so a message is popped by its value: the script that
moves it first compares the head of the list with the bytes the mover looked at. Whoever comes
second finds another head and leaves it. Equal bytes have equal targets, so it does not matter
which of two equal messages is meant.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspider_zk.core.names import Kind, slot_queue
from pyspider_zk.queues.redis_link import (
    DEAD_LETTER_LIMIT,
    DEAD_LETTERS,
    RedisLink,
    ready_key,
)
from pyspider_zk.queues.routing import Route, route

BATCH = 100  # messages per round trip

log = logging.getLogger(__name__)

# KEYS: list, ready, dead letters, stream...
# ARGV: raw, kind, limit of a stream, of the dead letters, (slot, body) per stream,
#       (reason, body) per rejected task
_MOVE = """
local streams = #KEYS - 3
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
local limit = tonumber(ARGV[3])
for i = 1, streams do
  if limit > 0 and redis.call('XLEN', KEYS[3 + i]) >= limit then return 0 end
end
for i = 1, streams do
  redis.call('XADD', KEYS[3 + i], '*', 'body', ARGV[4 + 2 * i])
  redis.call('SADD', KEYS[2], ARGV[3 + 2 * i])
end
for i = 5 + 2 * streams, #ARGV, 2 do
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[4], '*',
             'reason', ARGV[i], 'kind', ARGV[2], 'body', ARGV[i + 1])
end
redis.call('LPOP', KEYS[1])
return 1
"""


@dataclass(frozen=True)
class Move:
    """One message of the inbox and where it shall go."""

    kind: Kind
    raw: bytes
    route: Route


class RedisInbox:
    """`Inbox` in Redis 6.2 or later.

    Args:
        link: where.
        slots: how many slots the cluster has.
        limit: the most messages of one slot queue; 0: no limit.
    """

    def __init__(self, link: RedisLink, slots: int, limit: int = 0) -> None:
        self._link = link
        self._slots = slots
        self._limit = limit

    def forward(self, limit: int) -> int:
        """See `Inbox.forward`; one round trip if the inbox is empty, else two."""
        moves = self.plan(limit)
        return self.perform(moves)

    def plan(self, limit: int) -> list[Move]:
        """Return what is to do for the first `limit` messages of each kind; changes nothing."""
        if limit < 1:
            return []  # LRANGE 0 -1 would be all
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for kind in Kind:
                pipe.lrange(kind.value, 0, limit - 1)
            lists = pipe.execute()
        return [
            Move(kind, raw, route(kind, raw, self._slots))
            for kind, raws in zip(Kind, lists, strict=True)
            for raw in raws
        ]

    def perform(self, moves: Sequence[Move]) -> int:
        """Do those of the moves whose message is still the head of its list; return how many.

        Goes in batches and stops after one in which something did not move, because another
        mover is at it or a slot queue is full.
        """
        total = 0
        for start in range(0, len(moves), BATCH):
            batch = moves[start : start + BATCH]
            done = self._perform(batch)
            total += done
            if done < len(batch):
                break
        return total

    def lengths(self) -> Mapping[Kind, int]:
        """See `Inbox.lengths`."""
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for kind in Kind:
                pipe.llen(kind.value)
            return dict(zip(Kind, pipe.execute(), strict=True))

    def _perform(self, batch: Sequence[Move]) -> int:
        with self._link.client() as client:
            pipe: Any = client.pipeline(transaction=False)
            for move in batch:
                self._queue(pipe, move)
            done = pipe.execute()
        for move, moved in zip(batch, done, strict=True):
            for reason, body in move.route.rejected if moved else ():
                log.warning("rejected %d bytes from %s: %s", len(body), move.kind.value, reason)
        return sum(done)

    def _queue(self, pipe: Any, move: Move) -> None:
        parts = move.route.parts
        streams = [slot_queue(move.kind, slot) for slot in parts]
        keys = [move.kind.value, ready_key(move.kind), DEAD_LETTERS, *streams]
        arguments = [move.raw, move.kind.value, self._limit, DEAD_LETTER_LIMIT]
        pairs = [*parts.items(), *move.route.rejected]
        pipe.eval(_MOVE, len(keys), *keys, *arguments, *(item for pair in pairs for item in pair))
