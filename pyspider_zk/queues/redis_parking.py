"""The parking lot in Redis: one hash per slot, whose fields never change their value.

A field's name identifies its message, so a member that takes a slot over reads only the names;
bodies are read when they are applied. One set names the slots that have parked messages.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.queues.api import Delivery, Parked, ParkingMove, SlotBacklog, published
from pyspider_zk.queues.codec import decode, encode
from pyspider_zk.queues.names import slot_queue
from pyspider_zk.queues.parking_names import in_order, name_of, parked_of
from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import (
    DEAD_LETTER_LIMIT,
    DEAD_LETTERS,
    PARKED_READY,
    RedisLink,
    parked_key,
    ready_key,
    slot_number,
)

log = logging.getLogger(__name__)

# What adds comes before what deletes: a Redis out of memory refuses the first, and is left as it
# was; done a second time it makes no difference.
#
# KEYS: lot, ready, stream (none: the source is in the lot)
# ARGV: slot, source, limit, name, body, what it replaces (maybe)
_PARK = """
local is_there
if KEYS[3] then
  is_there = #redis.call('XRANGE', KEYS[3], ARGV[2], ARGV[2])
else
  is_there = redis.call('HEXISTS', KEYS[1], ARGV[2])
end
if is_there == 0 then return 1 end
local limit = tonumber(ARGV[3])
if limit > 0 and redis.call('HLEN', KEYS[1]) >= limit then return 0 end
redis.call('HSET', KEYS[1], ARGV[4], ARGV[5])
redis.call('SADD', KEYS[2], ARGV[1])
if ARGV[6] then redis.call('HDEL', KEYS[1], ARGV[6]) end
if KEYS[3] then redis.call('XDEL', KEYS[3], ARGV[2]) else redis.call('HDEL', KEYS[1], ARGV[2]) end
return 1
"""

# KEYS: lot, ready, dead letters   ARGV: slot, name, kind, reason, limit of the dead letters
_REJECT = """
local body = redis.call('HGET', KEYS[1], ARGV[2])
if not body then return end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*',
           'reason', ARGV[4], 'kind', ARGV[3], 'slot', ARGV[1], 'body', body)
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
"""

# KEYS: lot, parked, stream, ready   ARGV: name, slot, body...
_SPLIT = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return end
redis.call('SADD', KEYS[4], ARGV[2])
for i = 3, #ARGV do redis.call('XADD', KEYS[3], '*', 'body', ARGV[i]) end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[2]) end
"""

# KEYS: lot, ready   ARGV: slot, name...
_REMOVE = """
for i = 2, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
"""


class RedisParkingLot:
    """`ParkingLot` in Redis 6.2 or later.

    Args:
        link: where.
        foreign_keys: renames foreign keys.
    """

    def __init__(self, link: RedisLink, foreign_keys: ForeignKeys) -> None:
        self._link = link
        self._foreign_keys = foreign_keys

    def park(self, moves: Sequence[ParkingMove], limit: int = 0) -> list[bool]:
        """See `ParkingLot.park`."""
        calls = [_call(move, limit) for move in moves]
        if not calls:
            return []

        def work(client: Any) -> list[bool]:
            pipe = client.pipeline(transaction=False)
            for keys, arguments in calls:
                pipe.eval(_PARK, len(keys), *keys, *arguments)
            return list(map(bool, pipe.execute()))

        return self._foreign_keys.run(lambda: _types(keys for keys, _ in calls), work)

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """See `ParkingLot.load`; two round trips, however many slots."""
        names = self._names(self._ready() & set(slots))
        return in_order(each for own in names.values() for each in own)

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """See `ParkingLot.fetch`."""
        wanted = list(parked)

        def work(client: Any) -> list[Any]:
            pipe = client.pipeline(transaction=False)
            for each in wanted:
                pipe.hget(parked_key(each.slot), name_of(each))
            return list(pipe.execute()) if wanted else []

        raws = self._foreign_keys.run(lambda: _lots(each.slot for each in wanted), work)
        found = {}
        for each, raw in zip(wanted, raws, strict=True):
            try:
                if raw is not None:
                    found[each] = decode(raw)
            except BadMessage as error:
                self.reject(each, str(error))
        for each in [each for each, body in found.items() if isinstance(body, list)]:
            self._split(each, found.pop(each))
        return found

    def remove(self, parked: Iterable[Parked]) -> None:
        """See `ParkingLot.remove`."""
        names: dict[int, list[str]] = {}
        for each in parked:
            names.setdefault(each.slot, []).append(name_of(each))
        if not names:
            return

        def work(client: Any) -> None:
            pipe = client.pipeline(transaction=False)
            for slot, own in names.items():
                pipe.eval(_REMOVE, 2, parked_key(slot), PARKED_READY, slot, *own)
            pipe.execute()

        self._foreign_keys.run(lambda: {**_lots(names), PARKED_READY: "set"}, work)

    def reject(self, parked: Parked, reason: str) -> None:
        """See `ParkingLot.reject`."""
        slot, kind = parked.slot, parked.kind.value
        types = {parked_key(slot): "hash", PARKED_READY: "set", DEAD_LETTERS: "stream"}
        about: list[Any] = [slot, name_of(parked), kind, brief(reason), DEAD_LETTER_LIMIT]
        self._foreign_keys.run(
            lambda: types, lambda it: it.eval(_REJECT, len(types), *types, *about)
        )

    def waiting(self) -> Mapping[int, SlotBacklog]:
        """See `ParkingLot.waiting`; the times are those in the names."""
        names = self._names(self._ready())
        with self._link.client() as client:
            seconds, micros = client.time()
        now = seconds + micros / 1e6
        return {
            slot: SlotBacklog(
                len(own), max(0.0, now - min(published(each.tag) for each in own) / 1000)
            )
            for slot, own in names.items()
            if own
        }

    def _split(self, parked: Parked, tasks: Sequence[Any]) -> None:
        kind, slot = parked.kind, parked.slot
        keys = [parked_key(slot), PARKED_READY, slot_queue(kind, slot), ready_key(kind)]
        bodies = [encode(task) for task in tasks]
        with self._link.client() as client:
            client.eval(_SPLIT, len(keys), *keys, name_of(parked), slot, *bodies)

    def _ready(self) -> set[int]:
        types = {PARKED_READY: "set"}
        members: Any = self._foreign_keys.run(lambda: types, lambda it: it.smembers(PARKED_READY))
        junk = {each for each in members if slot_number(each) is None}
        if junk:
            log.warning("%s: passed over %r, which is no slot", PARKED_READY, min(junk)[:80])
        return {int(each) for each in members - junk}

    def _names(self, slots: Iterable[int]) -> dict[int, list[Parked]]:
        slots = sorted(slots)

        def work(client: Any) -> list[Any]:
            pipe = client.pipeline(transaction=False)
            for slot in slots:
                pipe.hkeys(parked_key(slot))
            return list(pipe.execute()) if slots else []

        replies = self._foreign_keys.run(lambda: _lots(slots), work)
        return {slot: _usable(slot, names) for slot, names in zip(slots, replies, strict=True)}


def _call(move: ParkingMove, limit: int) -> tuple[list[str], list[Any]]:
    """Return the keys and arguments of the script for one move."""
    source, slot = move.source, move.source.slot
    keys = [parked_key(slot), PARKED_READY]
    if isinstance(source, Delivery):
        keys.append(slot_queue(source.kind, slot))
        name = source.tag
    else:
        name = name_of(source)
    is_bounded = isinstance(source, Delivery) and not move.target.taskid
    about = [slot, name, limit if is_bounded else 0, name_of(move.target), encode(move.body)]
    return keys, about + ([name_of(move.replaced)] if move.replaced else [])


def _lots(slots: Iterable[int]) -> dict[str, str]:
    """Return the type that the lot of each of these slots must have."""
    return {parked_key(slot): "hash" for slot in slots}


def _types(calls: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the type that each key of these calls must have."""
    types = ("hash", "set", "stream")
    return {key: kind for keys in calls for key, kind in zip(keys, types, strict=False)}


def _usable(slot: int, names: Iterable[bytes]) -> list[Parked]:
    """Return the valid names; other programs may write into the same Redis."""
    found, junk = [], []
    for name in names:
        try:
            found.append(parked_of(slot, name))
        except BadMessage as error:
            junk.append(error)
    if junk:
        log.warning("%s: passed over %d fields: %s", parked_key(slot), len(junk), junk[0])
    return found
