"""Slot records in Redis: one key per slot."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.codec import decode_record, encode_record
from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import RedisLink, record_key


class RedisSlotRecords:
    """`SlotRecords` in Redis; as durable as that Redis is set up to be.

    Args:
        link: where.
        foreign_keys: renames unreadable records.
    """

    def __init__(self, link: RedisLink, foreign_keys: ForeignKeys | None = None) -> None:
        self._link = link
        self._foreign_keys = foreign_keys or ForeignKeys(link)

    def save(self, slot: int, record: Mapping[str, Any]) -> None:
        """See `SlotRecords.save`."""
        self.save_many({slot: record})

    def load(self, slot: int) -> dict[str, Any] | None:
        """See `SlotRecords.load`."""
        return self.load_many([slot]).get(slot)

    def drop(self, slot: int) -> None:
        """See `SlotRecords.drop`."""
        self.drop_many([slot])

    def save_many(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """See `SlotRecords.save_many`."""
        values = {record_key(slot): encode_record(slot, own) for slot, own in records.items()}
        with self._link.client() as client:
            if values:
                client.mset(values)

    def load_many(self, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """See `SlotRecords.load_many`."""
        slots = list(slots)
        with self._link.client() as client:
            values: Any = client.mget([record_key(slot) for slot in slots]) if slots else []
        read = {
            slot: self._read(slot, raw)
            for slot, raw in zip(slots, values, strict=True)
            if raw is not None
        }
        return {slot: record for slot, record in read.items() if record is not None}

    def drop_many(self, slots: Iterable[int]) -> None:
        """See `SlotRecords.drop_many`."""
        keys = [record_key(slot) for slot in slots]
        with self._link.client() as client:
            if keys:
                client.unlink(*keys)

    def _read(self, slot: int, raw: bytes) -> dict[str, Any] | None:
        """Return a record; an invalid one is renamed and counts as missing."""
        try:
            return decode_record(slot, raw)
        except BadMessage as error:
            self._foreign_keys.move(record_key(slot), raw, str(error))
            return None
