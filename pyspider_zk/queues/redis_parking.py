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
    slot_number,
)

log = logging.getLogger(__name__)

# What adds comes before what deletes: a Redis out of memory refuses the first, and is left as it
# was; done a second time it makes no difference.
#
# KEYS: lot, ready, dead letters, stream (none: the source is in the lot)
# ARGV: slot, kind, source, limit, reason, limit of the dead letters,
#       number of pieces, (name, body) per piece, what else goes...
_PARK = """
local body
if KEYS[4] then
  local found = redis.call('XRANGE', KEYS[4], ARGV[3], ARGV[3])
  body = found[1] and found[1][2][2]
else
  body = redis.call('HGET', KEYS[1], ARGV[3])
end
if not body then return 1 end
local limit = tonumber(ARGV[4])
if limit > 0 and redis.call('HLEN', KEYS[1]) >= limit then return 0 end
local last = 7 + 2 * tonumber(ARGV[7])
for i = 8, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if last > 7 then redis.call('SADD', KEYS[2], ARGV[1]) end
if ARGV[5] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*',
             'reason', ARGV[5], 'kind', ARGV[2], 'slot', ARGV[1], 'body', body)
end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
if KEYS[4] then redis.call('XDEL', KEYS[4], ARGV[3]) else redis.call('HDEL', KEYS[1], ARGV[3]) end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return 1
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
                self.park([ParkingMove(each, reason=str(error))])
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
    keys = [parked_key(slot), PARKED_READY, DEAD_LETTERS]
    if isinstance(source, Delivery):
        keys.append(slot_queue(source.kind, slot))
        name = source.tag
    else:
        name = name_of(source)
    pieces = {name_of(piece): encode(body) for piece, body in move.pieces.items()}
    bounded = isinstance(source, Delivery) and any(not piece.taskid for piece in move.pieces)
    about = [slot, source.kind.value, name, limit if bounded else 0, brief(move.reason)]
    gone = [name_of(each) for each in move.replaced if name_of(each) not in pieces]
    pairs = [part for pair in pieces.items() for part in pair]
    return keys, [*about, DEAD_LETTER_LIMIT, len(pieces), *pairs, *gone]


def _lots(slots: Iterable[int]) -> dict[str, str]:
    """Return the type that the lot of each of these slots must have."""
    return {parked_key(slot): "hash" for slot in slots}


def _types(calls: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the type that each key of these calls must have."""
    types = ("hash", "set", "stream", "stream")
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
