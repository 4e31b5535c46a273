"""Bytes of flat dataclasses: JSON, compressed if that makes it smaller."""

import json
import zlib
from dataclasses import fields
from typing import Any, TypeVar

from pyspider_zk.errors import BadMessage

SMALL = 1024  # bytes; below it compression wins little

Record = TypeVar("Record")


def encode(record: Any) -> bytes:
    """Return the bytes of a dataclass instance whose values are JSON's."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    data = json.dumps(values, separators=(",", ":")).encode()
    packed = zlib.compress(data) if len(data) > SMALL else data
    return min(data, packed, key=len)


def decode(kind: type[Record], data: bytes) -> Record:
    """Read the form that ``encode`` writes; unknown keys of a newer version are ignored.

    Raises:
        BadMessage: it is not that form.
    """
    try:
        known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
        text = data if data[:1] == b"{" else zlib.decompress(data)
        return kind(**{key: value for key, value in json.loads(text).items() if key in known})
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise BadMessage(f"this is no {kind.__name__}: {data[:40]!r}") from error
