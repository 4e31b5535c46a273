"""History in Redis: a hash per day and project, and one per day of the cluster, which expire."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pyspider_zk.queues.history import KEPT, Sums
from pyspider_zk.queues.names import history_adder_key
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script

_ADD = script("add_history")
_DIGITS = 18  # of a sum that is read: Redis adds 64 bits


class RedisHistory:
    """`TaskHistory` in Redis; as durable as that Redis is set up to be."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def add(self, adder: str, number: int, sums: Sums) -> None:
        """See `TaskHistory.add`; one round trip."""
        types = {history_adder_key(adder): "string", **_hashes(sums)}
        packed = [msgspec.msgpack.encode(each) for each in sums.values()]
        self._keys.eval(_ADD, types, number, KEPT, *packed)

    def read(self, keys: Sequence[str], fields: Sequence[str]) -> list[list[int]]:
        """See `TaskHistory.read`; one round trip."""

        def fill(pipe: Any) -> None:
            for key in keys:
                pipe.hmget(key, fields)

        return [list(map(_sum, each)) for each in self._keys.pipelined(_hashes(keys), fill)]


def _hashes(keys: Sequence[str] | Sums) -> Mapping[str, str]:
    return dict.fromkeys(keys, "hash")


def _sum(raw: bytes | None) -> int:
    """Return a sum; 0 for what other programs have written there."""
    return int(raw) if raw and raw.isdigit() and len(raw) <= _DIGITS else 0
