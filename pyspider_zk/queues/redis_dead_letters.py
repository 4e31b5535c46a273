"""The dead letters in Redis: one stream, whose entries name the queue they were found in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspider_zk.core.names import Kind, slot_queue
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.redis_link import DEAD_LETTERS, RedisLink, ready_key

BATCH = 100  # letters per round trip

_TAG = re.compile(r"\d{1,20}-\d{1,20}")  # Redis refuses a whole command for one that is none

# KEYS: dead letters, inbox or stream, ready   ARGV: tag, slot (none: the inbox)
_REPLAY = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return 0 end
local fields = found[1][2]
local body = fields[#fields]
if ARGV[2] then
  redis.call('XADD', KEYS[2], '*', 'body', body)
  redis.call('SADD', KEYS[3], ARGV[2])
else
  redis.call('RPUSH', KEYS[2], body)
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
"""


class RedisDeadLetters:
    """What `SlotQueues` tells of dead letters. Threads: any.

    Args:
        link: where.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    def count(self) -> int:
        """See `SlotQueues.dead`."""
        with self._link.client() as client:
            return int(client.xlen(DEAD_LETTERS))

    def latest(self, limit: int) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        if limit < 1:
            return []  # for Redis 0 is no limit
        with self._link.client() as client:
            entries: Any = client.xrevrange(DEAD_LETTERS, count=limit)
        return [_letter(tag, fields) for tag, fields in entries]

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`; two round trips for each hundred."""
        return sum(self._replay(batch) for batch in _batches(tags))

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`; one round trip for each hundred."""
        with self._link.client() as client:
            return sum(int(client.xdel(DEAD_LETTERS, *batch)) for batch in _batches(tags))

    def _replay(self, tags: Sequence[str]) -> int:
        with self._link.client() as client:
            looks: Any = client.pipeline(transaction=False)
            for tag in tags:
                looks.xrange(DEAD_LETTERS, tag, tag)
            moves: Any = client.pipeline(transaction=False)
            for found in looks.execute():
                _move(moves, *(_letter(tag, fields) for tag, fields in found))
            return sum(moves.execute())


def _move(pipe: Any, *letters: DeadLetter) -> None:
    """Put letters back where they were found."""
    for letter in letters:
        kind, slot = letter.kind, letter.slot
        target = kind.value if slot is None else slot_queue(kind, slot)
        keys = [DEAD_LETTERS, target, ready_key(kind)]
        pipe.eval(_REPLAY, len(keys), *keys, letter.tag, *([] if slot is None else [slot]))


def _batches(tags: Iterable[str]) -> list[list[str]]:
    usable = [tag for tag in dict.fromkeys(tags) if _TAG.fullmatch(tag)]
    return [usable[start : start + BATCH] for start in range(0, len(usable), BATCH)]


def _letter(tag: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    slot = fields.get(b"slot")
    return DeadLetter(
        tag=tag.decode(),
        kind=Kind(fields[b"kind"].decode()),
        slot=None if slot is None else int(slot),
        reason=fields[b"reason"].decode(errors="replace"),
        time=int(tag.partition(b"-")[0]) / 1000,
        body=fields[b"body"],
    )
