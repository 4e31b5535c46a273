"""What callers ask for as plain values: read into the dataclass that has it, or refused. Pure."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, TypeVar

import msgspec

from pyspider_zk.errors import BadRequest

T = TypeVar("T")

MOST_PART = 1000  # characters

Part = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_PART)]
"""Of a longer text."""


def parsed(kind: type[T], what: str, asked: object) -> T:
    """Read a mapping of a dataclass's attributes; what is unknown is refused: it would mean all.

    Each value is read alone: msgspec's reading of a whole dataclass is not safe for the first
    threads that come at once (see ``zookeeper.codec.decoder``).

    Args:
        kind: all of its attributes have defaults.
        what: for people, such as ``a selection``.

    Raises:
        BadRequest: naming what is wrong.
    """
    if not isinstance(asked, Mapping):
        raise BadRequest(f"{what} must be an object, not {asked!r:.80}")
    known = {each.name: each.type for each in fields(kind)}  # type: ignore[arg-type]
    if strange := [str(name) for name in asked if name not in known]:
        raise BadRequest(f"{what} has no {strange[0]:.80}; known are {', '.join(known)}")
    return kind(**{name: _read(f"{what}: {name}", known[name], asked[name]) for name in asked})


def _read(what: str, kind: Any, value: object) -> Any:
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str) and "\0" in each:
            raise BadRequest(f"{what} has the character NUL")
        if isinstance(each, float) and not math.isfinite(each):
            raise BadRequest(f"{what}: {each} is no number")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {error}, not {value!r:.80}") from None


def among(kind: type[T], query: Mapping[str, Any]) -> T:
    """Return a dataclass whose attributes stand in a checked query, among others."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: query[name] for name in names if name in query})
