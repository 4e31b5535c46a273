"""The parking lot in the memory of one process, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspider_zk.core.alerts import Waiting
from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.api import Delivery, Move, Parked
from pyspider_zk.queues.codec import decode, encode
from pyspider_zk.queues.parking_names import in_order

if TYPE_CHECKING:
    from pyspider_zk.queues.memory import MemoryBroker


class MemoryParkingLot:
    """`ParkingLot` in memory.

    Args:
        broker: what the simulated processes share.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def park(self, moves: Sequence[Move], limit: int = 0) -> list[bool]:
        """See `ParkingLot.park`."""
        bodies = [{piece: encode(body) for piece, body in m.pieces.items()} for m in moves]
        with self._broker.lock:
            return [self._park(*each, limit) for each in zip(moves, bodies, strict=True)]

    def load(self, slots: Iterable[int]) -> list[Parked]:
        """See `ParkingLot.load`."""
        wanted = set(slots)
        with self._broker.lock:
            return in_order(each for each in self._broker.parked if each.slot in wanted)

    def fetch(self, parked: Iterable[Parked]) -> dict[Parked, Any]:
        """See `ParkingLot.fetch`."""
        found = {}
        for each in parked:
            raw = self._broker.parked.get(each)
            try:
                if raw is not None:
                    found[each] = decode(raw)
            except BadMessage as error:
                self.park([Move(each, reason=str(error))])
        return found

    def remove(self, parked: Iterable[Parked]) -> None:
        """See `ParkingLot.remove`."""
        with self._broker.lock:
            for each in parked:
                self._broker.parked.pop(each, None)

    def waiting(self) -> Mapping[int, Waiting]:
        """See `ParkingLot.waiting`."""
        with self._broker.lock:
            tags: dict[int, list[int]] = {}
            for each in self._broker.parked:
                tags.setdefault(each.slot, []).append(int(each.tag))
            now, since = self._broker.now(), self._broker.published
            return {slot: Waiting(len(own), now - since(min(own))) for slot, own in tags.items()}

    def _park(self, move: Move, bodies: Mapping[Parked, bytes], limit: int) -> bool:
        source = move.source
        raw = self._raw(source)
        if raw is None:
            return True
        held = sum(each.slot == source.slot for each in self._broker.parked)
        if 0 < limit <= held and isinstance(source, Delivery) and _has_whole(move):
            return False
        if move.reason:
            self._broker.bury(source.kind, source.slot, move.reason, raw)
        if isinstance(source, Delivery):
            self._broker.remove((source.kind, source.slot), int(source.tag))
        else:
            self.remove([source])
        self.remove(move.replaced)
        self._broker.parked.update(bodies)
        return True

    def _raw(self, source: Delivery | Parked) -> bytes | None:
        if isinstance(source, Parked):
            return self._broker.parked.get(source)
        queue = (source.kind, source.slot)
        return self._broker.streams.get(queue, {}).get(int(source.tag))


def _has_whole(move: Move) -> bool:
    return any(not piece.taskid for piece in move.pieces)
