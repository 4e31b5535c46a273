"""Mutations of bytes and of plain values. Pure: all chance comes from the caller's generator."""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import msgpack

from pyspider_zk.queues.tasks import is_deeper

Path = tuple[Any, ...]

ODD: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "0",
    "-1",
    "NaN",
    "\x00",
    "\ud800",
    "\u202e\u2603",
    "../..",
    "a`;--",
    "<b>",
    "%s%n%d",
    "x" * 5000,
    b"",
    b"\xff\xfe\x00",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": []}},
)
"""Values that somebody may not have thought of."""

PIECES: Sequence[bytes] = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\r\n\r\n",
    b"'",
    b'"',
    b"<",
    b">",
    b"&#0;",
    b"&x;",
    b"<!--",
    b"]]>",
    b"{",
    b"}",
    b"[",
    b"]",
    b"NaN",
    b"1e999",
    b"-1",
    b"9" * 40,
    b"%00",
    b"%ff",
    b"..%2f",
    b"\xc1",
    b"\xdf\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xd4\x7f\x01",
)
"""Bytes that mean something to one parser or another."""

MOST = 4  # mutations of one input
DEEP = 210  # levels; the product refuses more than 200


def pick(chance: Random, items: Sequence[Any]) -> Any:
    return items[chance.randrange(len(items))]


# --- bytes --------------------------------------------------------------------------------------


def mutate_bytes(data: bytes, chance: Random) -> bytes:
    """Return the bytes with one to four mutations."""
    for _ in range(chance.randint(1, MOST)):
        data = pick(chance, _ON_BYTES)(data, chance)
    return data


def _flip(data: bytes, chance: Random) -> bytes:
    if not data:
        return b"\x01"
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def _insert(data: bytes, chance: Random) -> bytes:
    place = chance.randint(0, len(data))
    return data[:place] + pick(chance, PIECES) + data[place:]


def _delete(data: bytes, chance: Random) -> bytes:
    begin, end = _slice(data, chance)
    return data[:begin] + data[end:]


def _double(data: bytes, chance: Random) -> bytes:
    begin, end = _slice(data, chance)
    return data[:end] + data[begin:end] * chance.randint(1, 20) + data[end:]


def _cut(data: bytes, chance: Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _overwrite(data: bytes, chance: Random) -> bytes:
    begin, end = _slice(data, chance)
    return data[:begin] + chance.randbytes(end - begin) + data[end:]


def _slice(data: bytes, chance: Random) -> tuple[int, int]:
    begin = chance.randint(0, len(data))
    return begin, min(len(data), begin + chance.randint(1, 32))


_ON_BYTES: Sequence[Callable[[bytes, Random], bytes]] = (
    _flip,
    _insert,
    _delete,
    _double,
    _cut,
    _overwrite,
)


# --- plain values -------------------------------------------------------------------------------


def mutate_value(value: Any, chance: Random) -> Any:
    """Return a copy of a plain value with one to four mutations, anywhere in it."""
    for _ in range(chance.randint(1, MOST)):
        if is_deeper(value, DEEP):
            break
        value = _changed(value, pick(chance, list(_paths(value))), chance)
    return value


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _paths(part, (*path, key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value[:50]):
            yield from _paths(part, (*path, place))


def _changed(value: Any, path: Path, chance: Random) -> Any:
    if not path:
        return _another(value, chance)
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return _changed_mapping(value, key, rest, chance)
    parts = list(value)
    if not rest and chance.random() < 0.2:
        return parts[:key] + parts[key + 1 :]
    parts[key] = _changed(parts[key], rest, chance)
    return parts


def _changed_mapping(value: dict[Any, Any], key: Any, rest: Path, chance: Random) -> Any:
    parts = dict(value)
    if rest or chance.random() < 0.6:
        parts[key] = _changed(parts[key], rest, chance)
    elif chance.random() < 0.5:
        del parts[key]
    else:
        parts[pick(chance, ("", 7, "x", "\x00", f"{key}x"))] = parts.pop(key)
    return parts


def _another(value: Any, chance: Random) -> Any:
    """Return something in place of a value: of its own kind, or of another."""
    kind = chance.random()
    if kind < 0.4 and isinstance(value, str):
        return mutate_bytes(value.encode("utf-8", "surrogatepass"), chance).decode(
            "utf-8", "replace"
        )
    if kind < 0.4 and isinstance(value, bytes):
        return mutate_bytes(value, chance)
    if kind < 0.4 and isinstance(value, int | float):
        return pick(chance, (value + 1, -value, value * 1000, str(value), float(value)))
    if kind < 0.5:
        return [value] * chance.randint(0, 3)
    if kind < 0.52:
        return _nested(value, chance.randint(2, DEEP))  # at most twice DEEP in all
    return pick(chance, ODD)


def _nested(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


# --- records and messages -----------------------------------------------------------------------


def mutate_record(data: bytes, chance: Random) -> bytes:
    """Return a znode's data mutated: as a record if it is one, else by bytes."""
    if chance.random() < 0.4:
        return mutate_bytes(data, chance)
    raw, packed = _unpacked(data)
    try:
        value = mutate_value(json.loads(raw), chance)
        made = json.dumps(value, default=repr).encode("utf-8", "surrogatepass")
    except (ValueError, TypeError):  # it was no JSON, or is none any more
        return mutate_bytes(data, chance)
    return zlib.compress(made) if packed else made


def _unpacked(data: bytes) -> tuple[bytes, bool]:
    try:
        return zlib.decompress(data), True
    except zlib.error:
        return data, False


def mutate_message(data: bytes, chance: Random) -> bytes:
    """Return a message of a queue mutated: as a message if it is one, else by bytes."""
    if chance.random() < 0.4:
        return mutate_bytes(data, chance)
    try:
        value = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogatepass")
        return packed(mutate_value(value, chance))
    except ValueError:
        return mutate_bytes(data, chance)


def packed(value: Any) -> bytes:
    """Return a plain value as msgpack; numbers that have no form there become text.

    Raises:
        ValueError: it has no form there.
    """
    try:
        made: bytes = msgpack.packb(value, unicode_errors="surrogatepass", default=str)
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return made
