"""A list in Redis as pyspider's queue uses it, which neither junk nor a huge message stops."""

import logging
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.redis_aside import Aside

log = logging.getLogger(__name__)

# KEYS: list   ARGV: bytes of a message
_POP = """
local raw = redis.call('LPOP', KEYS[1])
if raw and #raw > tonumber(ARGV[1]) then return #raw end
return raw
"""


class RedisList:
    """The three commands of redis-py that pyspider's queue sends.

    A key of another type is moved out of the way, see `redis_aside`. Threads: any.

    Args:
        aside: moves foreign keys out of the way.
    """

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    def llen(self, name: str) -> int:
        """Return the number of messages."""
        length: Any = self._aside.run(lambda: {name: "list"}, lambda it: it.llen(name))
        return int(length)

    def rpush(self, name: str, raw: bytes) -> int:
        """Append a message; return the number of messages.

        Raises:
            BadMessage: it is larger than the one who takes it would take.
        """
        check_size(raw)
        length: Any = self._aside.run(lambda: {name: "list"}, lambda it: it.rpush(name, raw))
        return int(length)

    def lpop(self, name: str) -> bytes | None:
        """Take the oldest message; one that is too large is dropped by the server."""
        while True:
            raw: Any = self._aside.run(
                lambda: {name: "list"}, lambda it: it.eval(_POP, 1, name, str(caps.PAGE))
            )
            if not isinstance(raw, int):
                return raw  # type: ignore[no-any-return]
            log.error("dropped a message of %s: %d bytes, the limit is %d", name, raw, caps.PAGE)


def check_size(raw: bytes) -> None:
    """Make sure that a message may be sent.

    Raises:
        BadMessage: it is too large.
    """
    if len(raw) > caps.PAGE:
        raise BadMessage(f"has {len(raw)} bytes, the limit is {caps.PAGE}")
