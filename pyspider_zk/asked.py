"""What callers ask for as plain values: read into the dataclass that has it, or refused. Pure."""

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

    Args:
        what: for people, such as ``a selection``.

    Raises:
        BadRequest: naming what is wrong.
    """
    if not isinstance(asked, Mapping):
        raise BadRequest(f"{what} must be an object, not {asked!r:.80}")
    known = _names(kind)
    if strange := [str(name) for name in asked if name not in known]:
        raise BadRequest(f"{what} has no {strange[0]:.80}; known are {', '.join(known)}")
    if nul := [name for name, value in asked.items() if "\0" in str(value)]:
        raise BadRequest(f"{what}: {nul[0]} has the character NUL")
    try:
        return msgspec.convert(dict(asked), kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {error}") from None


def among(kind: type[T], query: Mapping[str, Any]) -> T:
    """Return a dataclass whose attributes stand in a checked query, among others."""
    return kind(**{name: query[name] for name in _names(kind) if name in query})


def _names(kind: type[Any]) -> list[str]:
    return [each.name for each in fields(kind)]
