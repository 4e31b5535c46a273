"""Bytes that are no record, message or document of ours."""

import gzip
import json
import zlib
from collections.abc import Mapping

DEEP = 100_000  # levels
INFLATED = 64 * 2**20  # bytes that the bombs become
ZNODE = 900_000  # bytes; ZooKeeper refuses 1 MiB

BOMB = zlib.compress(b"[" + b" " * INFLATED + b"]", 9)
GZIP_BOMB = gzip.compress(b"<a>" + b" " * INFLATED + b"</a>", 9)
DEEP_JSON = b"[" * DEEP + b"]" * DEEP
DEEP_MAP = b'{"a":' * DEEP + b"1" + b"}" * DEEP

_NAMES = """
    address host pid version started name draining renewal moves maintenance pins projects
    pending tasks_per_s cpu quarantined away slots protocol protocols reopens rates slot_rates
    weigh_by weigh_every epoch members work created attempts deaths claims not_before claimant
    cancelled needs_cleanup progress reason outcome ended note expected put digest to_close
    kind text at who data run home number since
"""
"""All that any record of ours has."""


def _all(value: object) -> bytes:
    """Return a record of every kind at once, all of whose parts have one value."""
    return json.dumps(dict.fromkeys(_NAMES.split(), value)).encode()


ZNODES: Mapping[str, bytes] = {
    "nothing": b"",
    "zero bytes": b"\x00\x00\x00\x00",
    "bytes that are no text": b"\xff\xfe\x80junk",
    "a word": b"junk",
    "a list": b"[]",
    "a number": b"-7",
    "half a record": b'{"address": "127.0.0.1:1", "pid"',
    "nested 100,000 deep": DEEP_JSON,
    "mappings 100,000 deep": DEEP_MAP,
    "a bomb of 64 MB": BOMB,
    "a bomb cut short": BOMB[:1000],
    "900 KB of one word": b'"' + b"x" * ZNODE + b'"',
    "900 KB of junk": b"\x01" * ZNODE,
    "half a surrogate": b'{"address": "\\ud800", "text": "\xed\xa0\x80"}',
    "parts of the wrong types": _all([{"a": None}]),
    "texts for numbers": _all("many"),
    "NaN": _all(float("nan")),
    "infinite": _all(float("inf")),
    "negative": _all(-(10**30)),
    "a foreign version": b'{"protocol": 99, "version": {"major": 9}, "schema": "v9"}',
}
"""What may stand in any znode."""

NAMES = (
    "note",
    "0",
    "-",
    "-1",
    "x-y",
    "99999999999999999999-a",
    "n\u0101me \u2603",
    "1e5-a",
    "event-1",
    "%ED%A0%80",
    "x" * 2000,
)
"""Znodes that nobody of ours would make."""
