"""The parking lot in Redis: one hash per slot, whose fields never change their value.

A field's name identifies its message, so a member that takes a slot over reads only the names;
bodies are read when they are applied. One set names the slots that have parked messages.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery, Parked, ParkingMove, SlotBacklog, in_order, published
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.names import (
    DEAD_LETTERS,
    PARKED_READY,
    parked_key,
    ready_key,
    slot_number,
    slot_queue,
)
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.slot_queues import unpack_parked

log = logging.getLogger(__name__)

_PARK, _REJECT, _REMOVE = script("park"), script("reject_parked"), script("remove_parked")
_SPLIT = script("split")


class RedisParkingLot:
    """`ParkingLot` in Redis 6.2 or later."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def park(self, moves: Sequence[ParkingMove], limit: int = 0) -> list[bool]:
        """See `ParkingLot.park`."""
        calls = [_call(move, limit) for move in moves]

        def fill(pipe: Any) -> None:
            for types, arguments in calls:
                pipe.eval(_PARK, len(types), *types, *arguments)

        types = {key: kind for types, _ in calls for key, kind in types.items()}
        return list(map(bool, self._keys.pipelined(types, fill)))

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """See `ParkingLot.load`; two round trips, however many slots."""
        names = self._names(self._ready() & set(slots))
        return in_order(each for own in names.values() for each in own)

    def sizes(self, parked: Sequence[Parked]) -> list[int]:
        """See `ParkingLot.sizes`."""
        found: list[int] = self._keys.pipelined(
            _lots(each.slot for each in parked),
            lambda pipe: [pipe.hstrlen(parked_key(each.slot), each.name) for each in parked],
        )
        return found

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """See `ParkingLot.fetch`."""
        wanted = list(parked)
        raws = self._keys.pipelined(
            _lots(each.slot for each in wanted),
            lambda pipe: [pipe.hget(parked_key(each.slot), each.name) for each in wanted],
        )
        return unpack_parked(zip(wanted, raws, strict=True), self.reject, self._split)

    def remove(self, parked: Iterable[Parked]) -> None:
        """See `ParkingLot.remove`."""
        names: dict[int, list[str]] = {}
        for each in parked:
            names.setdefault(each.slot, []).append(each.name)

        def fill(pipe: Any) -> None:
            for slot, own in names.items():
                pipe.eval(_REMOVE, 2, parked_key(slot), PARKED_READY, slot, *own)

        self._keys.pipelined({**_lots(names), PARKED_READY: "set"}, fill)

    def reject(self, parked: Parked, reason: str) -> None:
        """See `ParkingLot.reject`."""
        types = {parked_key(parked.slot): "hash", PARKED_READY: "set", DEAD_LETTERS: "stream"}
        about = [parked.slot, parked.name, parked.kind.value, brief(reason), caps.LETTERS]
        self._keys.eval(_REJECT, types, *about)

    def waiting(self) -> Mapping[int, SlotBacklog]:
        """See `ParkingLot.waiting`; the times are those in the names."""
        names = self._names(self._ready())
        seconds, micros = self._keys.run({}, lambda it: it.time())
        now = seconds + micros / 1e6
        oldest = {
            slot: min(published(each.tag) for each in own) / 1000
            for slot, own in names.items()
            if own
        }
        return {
            slot: SlotBacklog(len(names[slot]), max(0.0, now - since))
            for slot, since in oldest.items()
        }

    def _split(self, parked: Parked, tasks: Sequence[Any]) -> None:
        kind, slot = parked.kind, parked.slot
        types = {slot_queue(kind, slot): "stream", ready_key(kind): "set"}
        types |= {parked_key(slot): "hash", PARKED_READY: "set"}
        self._keys.eval(_SPLIT, types, parked.name, slot, *map(encode, tasks))

    def _ready(self) -> set[int]:
        members = self._keys.run({PARKED_READY: "set"}, lambda it: it.smembers(PARKED_READY))
        junk = {each for each in members if slot_number(each) is None}
        if junk:
            log.warning("%s: passed over %r, which is no slot", PARKED_READY, min(junk)[:80])
        return {int(each) for each in members - junk}

    def _names(self, slots: set[int]) -> dict[int, list[Parked]]:
        types = _lots(sorted(slots))
        replies = self._keys.pipelined(types, lambda pipe: [pipe.hkeys(lot) for lot in types])
        return {
            slot: _usable(slot, names) for slot, names in zip(sorted(slots), replies, strict=True)
        }


def _call(move: ParkingMove, limit: int) -> tuple[dict[str, str], list[Any]]:
    """Return the keys, with their types, and the arguments of the script for one move."""
    source, slot = move.source, move.source.slot
    types = {parked_key(slot): "hash", PARKED_READY: "set"}
    if isinstance(source, Delivery):
        types[slot_queue(source.kind, slot)] = "stream"
        name, bound = source.tag, 0 if move.target.taskid else limit
    else:
        name, bound = source.name, 0
    about = [slot, name, bound, move.target.name, encode(move.body)]
    return types, about + ([move.replaced.name] if move.replaced else [])


def _lots(slots: Iterable[int]) -> dict[str, str]:
    """Return the type that the lot of each of these slots must have."""
    return {parked_key(slot): "hash" for slot in slots}


def _usable(slot: int, names: Iterable[bytes]) -> list[Parked]:
    """Return the valid names; other programs may write into the same Redis."""
    found, junk = [], []
    for name in names:
        try:
            found.append(Parked.named(slot, name))
        except BadMessage as error:
            junk.append(error)
    if junk:
        log.warning("%s: passed over %d fields: %s", parked_key(slot), len(junk), junk[0])
    return found
