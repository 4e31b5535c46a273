"""Wake-ups in Redis: a short stream that wakes blocked readers when an empty queue got a message.

A publisher to an empty queue adds an entry, in the same script; a reader whose queues are all empty
blocks on the stream. Publishing to a queue that is not empty adds none, so a busy cluster writes
few. No message depends on it: readers also look from time to time, because stock components, or a
crash, may leave a message without a wake-up.
"""

from pyspider_zk.queues.names import SLOT_WAKE_UPS, QueueKind, SlotQueue, slot_number
from pyspider_zk.queues.redis_typed_keys import TypedKeys

LATEST = 100
"""About how many wake-ups are kept."""

_KINDS = {kind.value.encode(): kind for kind in QueueKind}

OLDEST, HIGHEST = b"0", b"18446744073709551615-18446744073709551615"
"""An id before all ids, and the last that there is."""

LONGEST_WAIT = 2.0
"""Seconds that a read blocks in Redis at most; less than the time-out of an answer."""


class RedisWakeUps:
    """Reader of one stream of wake-ups. Threads: one.

    Args:
        key: the stream.
    """

    def __init__(self, keys: TypedKeys, key: str) -> None:
        self._keys = keys
        self._key = key
        self._after = OLDEST

    def wait(self, seconds: float) -> list[bytes]:
        """Return the contents of the wake-ups since the last call, as soon as there is one.

        Blocks for ``seconds`` at most, and for ``LONGEST_WAIT``; then the list is empty.

        Raises:
            Unavailable: Redis does not answer.
        """
        block = max(1, round(1000 * min(seconds, LONGEST_WAIT)))
        reply = self._keys.run(
            {self._key: "stream"}, lambda it: it.xread({self._key: self._after}, LATEST, block)
        )
        entries = reply[0][1] if reply else []
        if entries:
            self._after = self._next_after(entries[-1][0])
        return [value for _, fields in entries for value in fields.values()]

    def _next_after(self, last: bytes) -> bytes:
        """Return after which id to read on; after the highest nothing comes in this stream."""
        if last != HIGHEST:
            return last
        self._keys.run({}, lambda it: it.delete(self._key))
        return OLDEST


class RedisSlotWakeUps:
    """`WakeUps` in Redis 6.2 or later."""

    def __init__(self, keys: TypedKeys) -> None:
        self._wake_ups = RedisWakeUps(keys, SLOT_WAKE_UPS)

    def wait(self, seconds: float) -> set[SlotQueue]:
        """See `WakeUps.wait`."""
        names = {name for value in self._wake_ups.wait(seconds) for name in value.split(b",")}
        return {queue for name in names if (queue := _slot_queue(name)) is not None}


def _slot_queue(name: bytes) -> SlotQueue | None:
    """Return the slot queue of a name, None if it is of none."""
    prefix, _, number = name.partition(b":")
    kind, slot = _KINDS.get(prefix), slot_number(number)
    return None if kind is None or slot is None else (kind, slot)
