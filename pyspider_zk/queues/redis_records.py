"""Slot records in Redis: one key per slot."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.codec import decode_record, encode_record
from pyspider_zk.queues.names import record_key
from pyspider_zk.queues.redis_typed_keys import TypedKeys


class RedisSlotRecords:
    """`SlotRecords` in Redis; as durable as that Redis is set up to be."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def load(self, slot: int) -> dict[str, Any] | None:
        """See `SlotRecords.load`."""
        return self.load_many([slot]).get(slot)

    def save_many(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """See `SlotRecords.save_many`."""
        values = {record_key(slot): encode_record(slot, own) for slot, own in records.items()}
        with self._keys.link.client() as client:
            if values:
                client.mset(values)

    def load_many(self, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """See `SlotRecords.load_many`."""
        slots = list(slots)
        with self._keys.link.client() as client:
            values: Any = client.mget([record_key(slot) for slot in slots]) if slots else []
        found = {}
        for slot, raw in zip(slots, values, strict=True):
            try:
                if raw is not None:
                    found[slot] = decode_record(slot, raw)
            except BadMessage as error:
                self._keys.move(record_key(slot), raw, str(error))
        return found

    def drop_many(self, slots: Iterable[int]) -> None:
        """See `SlotRecords.drop_many`."""
        keys = [record_key(slot) for slot in slots]
        with self._keys.link.client() as client:
            if keys:
                client.unlink(*keys)
