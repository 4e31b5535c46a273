"""Wake-ups in Redis: a short stream that tells blocked readers that an empty queue got a message.

Who publishes to a queue that was empty adds an entry, in the same script; who found all of its
queues empty blocks on the stream. What is published to a queue that holds something adds none, so a
busy cluster writes few. No message depends on it: readers look from time to time as well, for stock
components, or a crash, may leave a message without a wake-up.
"""

from typing import Any

from pyspider_zk.queues.redis_foreign_keys import ForeignKeys
from pyspider_zk.queues.redis_link import SLOT_WAKE_UPS, slot_number

LATEST = 100
"""How many wake-ups are kept, about."""

LONGEST_WAIT = 2.0
"""Seconds that Redis is asked to block for, at most; less than it may take to answer."""


class RedisWakeUps:
    """Reader of one stream of wake-ups.

    Threads: one.

    Args:
        foreign_keys: moves foreign keys out of the way.
        key: the stream.
    """

    def __init__(self, foreign_keys: ForeignKeys, key: str) -> None:
        self._foreign_keys = foreign_keys
        self._key = key
        self._after: bytes | str = "0"

    def wait(self, seconds: float) -> list[bytes]:
        """Return what the wake-ups since the last call say, as soon as there is one.

        Blocks for ``seconds`` at most, and for ``LONGEST_WAIT``; then the list is empty.

        Raises:
            Unavailable: Redis does not answer.
        """
        block = max(1, round(1000 * min(seconds, LONGEST_WAIT)))
        reply: Any = self._foreign_keys.run(
            lambda: {self._key: "stream"},
            lambda it: it.xread({self._key: self._after}, LATEST, block),
        )
        entries = reply[0][1] if reply else []
        if entries:
            self._after = entries[-1][0]
        return [value for _, fields in entries for value in fields.values()]


class RedisSlotWakeUps:
    """`WakeUps` in Redis 6.2 or later.

    Args:
        foreign_keys: moves foreign keys out of the way.
    """

    def __init__(self, foreign_keys: ForeignKeys) -> None:
        self._wake_ups = RedisWakeUps(foreign_keys, SLOT_WAKE_UPS)

    def wait(self, seconds: float) -> set[int]:
        """See `WakeUps.wait`."""
        names = {name for value in self._wake_ups.wait(seconds) for name in value.split(b",")}
        return {slot for name in names if (slot := slot_number(name)) is not None}
