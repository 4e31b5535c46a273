"""The dead letters in Redis: one stream, whose entries name the queue they were found in."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import redis

from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.names import QueueKind, slot_queue
from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import DEAD_LETTERS, RedisLink, ready_key

BATCH = 100  # letters per round trip
FOREIGN = "is no dead letter of ours: it cannot be put back, only dropped"

log = logging.getLogger(__name__)

# Redis refuses a whole command because of one invalid id.
_TAG = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)

# KEYS: dead letters, inbox or stream, ready   ARGV: tag, slot (none: the inbox)
_REPLAY = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return 0 end
local fields = found[1][2]
local body = fields[#fields]
if ARGV[2] then redis.call('XLEN', KEYS[2]) else redis.call('LLEN', KEYS[2]) end
redis.call('SCARD', KEYS[3])
if ARGV[2] then
  redis.call('XADD', KEYS[2], '*', 'body', body)
  redis.call('SADD', KEYS[3], ARGV[2])
else
  redis.call('RPUSH', KEYS[2], body)
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
"""


# KEYS: dead letters   ARGV: bytes of all
# A tenth is dropped at a time: Redis only estimates the bytes.
_TRIM = """
local dropped = 0
while (redis.call('MEMORY', 'USAGE', KEYS[1]) or 0) > tonumber(ARGV[1]) do
  local length = redis.call('XLEN', KEYS[1])
  if length < 2 then break end
  dropped = dropped + redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', math.floor(length * 0.9))
end
return dropped
"""


class RedisDeadLetters:
    """The dead letters of `SlotQueues`. Threads: any.

    Args:
        link: where.
        foreign_keys: renames foreign keys.
    """

    def __init__(self, link: RedisLink, foreign_keys: ForeignKeys | None = None) -> None:
        self._foreign_keys = foreign_keys or ForeignKeys(link)

    def count(self) -> int:
        """See `SlotQueues.dead`."""
        length: Any = self._foreign_keys.run(_letters, lambda it: it.xlen(DEAD_LETTERS))
        return int(length)

    def trim(self) -> None:
        """Drop the oldest while all together are too large; one round trip."""
        dropped: Any = self._foreign_keys.run(
            _letters, lambda it: it.eval(_TRIM, 1, DEAD_LETTERS, str(caps.DEAD))
        )
        if dropped:
            log.warning(
                "dropped the oldest %d dead letters: all together may have %d bytes",
                dropped,
                caps.DEAD,
            )

    def latest(self, limit: int) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        if limit < 1:
            return []  # 0 means no limit to Redis
        entries: Any = self._foreign_keys.run(
            _letters, lambda it: it.xrevrange(DEAD_LETTERS, count=limit)
        )
        return [_letter(tag, fields) for tag, fields in entries]

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`; two round trips for each hundred."""
        return sum(self._replay(batch) for batch in _batches(tags))

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`; one round trip for each hundred."""
        return sum(self._discard(batch) for batch in _batches(tags))

    def _discard(self, tags: Sequence[str]) -> int:
        count: Any = self._foreign_keys.run(_letters, lambda it: it.xdel(DEAD_LETTERS, *tags))
        return int(count)

    def _replay(self, tags: Sequence[str]) -> int:
        def look(client: redis.Redis) -> Any:
            pipe: Any = client.pipeline(transaction=False)
            for tag in tags:
                pipe.xrange(DEAD_LETTERS, tag, tag)
            return pipe.execute()

        found = self._foreign_keys.run(_letters, look)
        letters = [_letter(tag, fields) for entries in found for tag, fields in entries]
        return self._put_back([each for each in letters if each.reason != FOREIGN])

    def _put_back(self, letters: Sequence[DeadLetter]) -> int:
        def put(client: redis.Redis) -> list[int]:
            pipe: Any = client.pipeline(transaction=False)
            _move(pipe, *letters)
            moved: list[int] = pipe.execute()
            return moved

        return sum(self._foreign_keys.run(lambda: _targets(letters), put))


def _move(pipe: Any, *letters: DeadLetter) -> None:
    """Put letters back where they were found."""
    for letter in letters:
        slot = [] if letter.slot is None else [letter.slot]
        keys = [DEAD_LETTERS, _target(letter), ready_key(letter.kind)]
        pipe.eval(_REPLAY, len(keys), *keys, letter.tag, *slot)


def _target(letter: DeadLetter) -> str:
    return letter.kind.value if letter.slot is None else slot_queue(letter.kind, letter.slot)


def _targets(letters: Sequence[DeadLetter]) -> dict[str, str]:
    """Return the type of each key that these letters go back to."""
    types = {_target(each): "list" if each.slot is None else "stream" for each in letters}
    return {**_letters(), **types, **{ready_key(each.kind): "set" for each in letters}}


def _batches(tags: Iterable[str]) -> list[list[str]]:
    usable = [tag for tag in dict.fromkeys(tags) if _TAG.fullmatch(tag)]
    return [usable[start : start + BATCH] for start in range(0, len(usable), BATCH)]


def _letters() -> dict[str, str]:
    return {DEAD_LETTERS: "stream"}


def _letter(tag: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    """Return a letter; a foreign entry is shown as one, but cannot be put back."""
    try:
        return _read(tag, fields)
    except (KeyError, ValueError):
        body = repr(fields).encode()
        return DeadLetter(tag.decode(), QueueKind.NEWTASK, None, FOREIGN, _time(tag), body)


def _read(tag: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    slot = fields.get(b"slot")
    if slot is not None and not 0 <= int(slot) < MOST_SLOTS:
        raise ValueError(slot)
    return DeadLetter(
        tag=tag.decode(),
        kind=QueueKind(fields[b"kind"].decode()),
        slot=None if slot is None else int(slot),
        reason=fields[b"reason"].decode(errors="replace"),
        time=_time(tag),
        body=fields[b"body"],
    )


def _time(tag: bytes) -> float:
    return int(tag.partition(b"-")[0]) / 1000
