"""Documents: columns of JSON, written and read in C, as pyspider's ``json`` does; pure.

What is written is the same to the byte. What is read is the same value; where msgspec refuses what
``json`` takes, such as NaN or half a character, ``json`` reads it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from json import encoder
from typing import Any

import msgspec

DOCUMENTS = ("schedule", "fetch", "process", "track")
"""Columns of JSON."""

UNREADABLE = (ValueError, TypeError, RecursionError)
"""Errors of invalid JSON in a row; no client library raises these for a lost database."""

Read = Callable[[Any], Any]
"""Returns a document; raises ValueError, TypeError or RecursionError."""

_read = msgspec.json.Decoder().decode  # some times as fast as json.loads

# `json.dumps` makes an encoder for each call, which takes longer than most documents. One without a
# memory of what it is in (the first argument) can be kept, and used by any thread.
_make: Any = getattr(encoder, "c_make_encoder", None)
_default, _text = json.JSONEncoder().default, encoder.encode_basestring_ascii
_pieces = _make and _make(None, _default, _text, None, ": ", ", ", False, False, True)


def to_json(value: Any) -> str:
    """Return what ``json.dumps`` returns.

    Raises:
        TypeError, ValueError, RecursionError: as ``json.dumps`` does.
    """
    if _pieces is None:  # this Python has no encoder in C
        return json.dumps(value)
    try:
        return "".join(_pieces(value, 0))
    except Exception:  # such as that it contains itself, which this encoder cannot tell
        return json.dumps(value)


def from_json(stored: Any, read: Read = json.loads) -> Any:
    """Return a document as ``read`` returns it, which is asked about what msgspec refuses.

    Args:
        stored: text or bytes.
    """
    try:
        return _read(stored)
    except Exception:
        return read(stored)


def readable(
    stored: Mapping[str, Any] | Iterable[tuple[str, Any]], read: Read = json.loads
) -> dict[str, Any] | None:
    """Return a row with its documents read, an empty one as ``{}``; None if one is unreadable."""
    row = dict(stored)
    try:
        for name in DOCUMENTS:
            if name in row:
                row[name] = from_json(row[name], read) if row[name] else {}
    except UNREADABLE:
        return None
    return row
