"""The cluster's log in Redis: one stream, of which the oldest entries are dropped."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pyspider_zk.queues.log_lines import KEPT, Entry, LogLine
from pyspider_zk.queues.names import LOG
from pyspider_zk.queues.redis_typed_keys import TypedKeys

_LINE = b"line"
_STREAM = {LOG: "stream"}
_HIGHEST = 2**64 - 1  # of an id's numbers; Redis refuses others
_decoder = msgspec.msgpack.Decoder(LogLine)


class RedisLog:
    """`ClusterLog` in Redis; as durable as that Redis is set up to be."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def append(self, lines: Sequence[LogLine]) -> None:
        """See `ClusterLog.append`; one round trip."""
        packed = list(map(msgspec.msgpack.encode, lines))

        def fill(pipe: Any) -> None:
            for each in packed:
                pipe.xadd(LOG, {_LINE: each}, maxlen=KEPT, approximate=True)

        self._keys.pipelined(_STREAM, fill)

    def latest(self, before: str, count: int) -> list[Entry]:
        """See `ClusterLog.latest`; one round trip."""
        last = _before(before) if before else "+"
        return _entries(self._keys.run(_STREAM, lambda it: it.xrevrange(LOG, last, count=count)))

    def behind(self, after: str, count: int) -> list[Entry]:
        """See `ClusterLog.behind`; one round trip."""
        first = f"({after}" if after else "-"
        return _entries(self._keys.run(_STREAM, lambda it: it.xrange(LOG, first, count=count)))


def _before(tag: str) -> str:
    """Return the end of a range, whichever numbers the id has."""
    milliseconds, number = (min(int(each), _HIGHEST) for each in tag.split("-"))
    return f"({milliseconds}-{number}" if milliseconds or number else "0-0"


def _entries(found: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> list[Entry]:
    return [(tag.decode(), _line(fields)) for tag, fields in found]


def _line(fields: Mapping[bytes, bytes]) -> LogLine | None:
    """Return the line of an entry; None for what other programs have written there."""
    try:
        return _decoder.decode(fields.get(_LINE, b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
