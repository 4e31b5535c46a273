"""Record codec: flat dataclasses as JSON, checked against their types, bounded in every way.

Anybody may have written the data in ZooKeeper. Invalid records raise ``BadMessage`` and nothing
else; readers skip them, log that once and go on.
"""

import functools
import re
import threading
import zlib
from itertools import accumulate
from typing import Any, Self, TypeVar

import msgspec

from pyspider_zk.errors import BadMessage

SMALL = 1024  # bytes; below it compression wins little
MOST = 8 * 2**20  # bytes of a record once inflated; ZooKeeper itself takes 1 MiB
MOST_NESTED = 100  # levels; Python's own limit is met later, by whoever copies or shows it
QUOTED = 40  # bytes of what is no record that a message quotes

Decoded = TypeVar("Decoded")

_making = threading.Lock()


@functools.cache
def decoder(kind: Any) -> Any:  # mypy takes types for not hashable
    """Return msgspec's decoder of a type; one is made at a time.

    msgspec remembers a dataclass before it knows all of its fields. Another thread that meets it
    then dies, and the process with it.
    """
    with _making:
        return msgspec.json.Decoder(kind)


def encode(record: Any) -> bytes:
    """Return the JSON of a dataclass instance, compressed if that makes it smaller."""
    data = plain(record)
    packed = zlib.compress(data) if len(data) > SMALL else data
    return min(data, packed, key=len)


def plain(record: Any) -> bytes:
    """Return the JSON of a dataclass instance or of plain values."""
    return msgspec.json.encode(record)


def decode(kind: type[Decoded], data: bytes, most: int = MOST) -> Decoded:
    """Read the form that ``encode`` and ``plain`` write; unknown keys are ignored.

    Args:
        kind: a dataclass, or a type such as ``dict[int, int]``; values of other types, and NaN,
            are refused.
        most: bytes that it may have once inflated.

    Raises:
        BadMessage: it is not that form, nested too deeply, or larger than ``most``.
    """
    try:
        value: Decoded = decoder(kind).decode(_flat(_inflated(data, most)))  # type: ignore[arg-type]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, zlib.error) as error:
        raise BadMessage(f"this is no {_named(kind)}: {data[:QUOTED]!r} ({error})") from error
    return value


def checked(kind: type[Decoded], value: object) -> Decoded:
    """Return plain values, as they were decoded without a type, as what they must be.

    Raises:
        BadMessage: they are of other types.
    """
    decoder(kind)  # type: ignore[arg-type]
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadMessage(f"this is no {_named(kind)}: {error}") from error


def _named(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _inflated(data: bytes, most: int) -> bytes:
    """Return the JSON; a few bytes may inflate to gigabytes, so no more than is allowed is."""
    if data[:1] != b"\x78":  # zlib's first byte, which no JSON begins with
        if len(data) > most:
            raise zlib.error(f"more than {most} bytes")
        return data
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, most)
    if inflating.unconsumed_tail:
        raise zlib.error(f"more than {most} bytes")
    if not inflating.eof:
        raise zlib.error("cut short")
    return text


def _flat(text: bytes) -> bytes:
    """Return the JSON if it is not nested too deeply."""
    if text.count(b"[") + text.count(b"{") > MOST_NESTED:
        steps = _TEXTS.sub(b"", text).translate(_STEPS, _OTHERS)
        if max(accumulate(step - 1 for step in steps), default=0) > MOST_NESTED:
            raise RecursionError(f"more than {MOST_NESTED} levels")
    return text


_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = bytes.maketrans(b"[{]}", b"\2\2\0\0")
_OTHERS = bytes(set(range(256)).difference(b"[{]}"))


class Record:
    """The JSON form of a flat dataclass."""

    def encode(self) -> bytes:
        """Return the bytes for the znode."""
        return plain(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: they are no such record.
        """
        return decode(cls, data)
