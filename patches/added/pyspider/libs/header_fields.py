"""Header fields and cookies, as a script writes them: names and values, or what is wrong."""

import re
from collections.abc import Iterable
from decimal import Decimal
from http.cookiejar import Cookie
from http.cookies import Morsel
from typing import Any

from pyspider.libs.fetchable import Unfetchable

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class BadArgument(Unfetchable):
    """An argument that no request can be made of; the message names it, and what would do."""


def refuse_if(is_wrong: object, field: str, why: str) -> None:
    """Raise BadArgument, if so."""
    if is_wrong:
        raise BadArgument(f"{field} cannot be sent: {why}")


def pairs(field: str, given: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of a mapping, a list of pairs, or a jar of cookies."""
    if hasattr(given, "items"):
        return list(given.items())
    try:
        return [_pair(each) for each in given]
    except (TypeError, ValueError):
        why = f"it is a {type(given).__name__}, not a mapping or pairs"
        raise BadArgument(f"{field} cannot be sent: {why}") from None


def headers(field: str, given: Any) -> dict[str, str | bytes]:
    """Return headers by their names; those of None are left out, and Content-Length is the body's.

    Of names that differ in their case only the last counts in a mapping, all of them in pairs.
    """
    replaces = hasattr(given, "items")
    made: dict[str, tuple[str, Any]] = {}
    for each, value in pairs(field, given):
        name, key = str(_text(field, each)), str(each).lower()
        refuse_if(
            not TOKEN.fullmatch(name), f"{field}[{name!r:.60}]", "that is no name of a header"
        )
        if value is not None and key != "content-length":
            text = field_value(f"{field}[{name!r:.60}]", value)
            is_more = key in made and not replaces
            made[key] = name, _listed(key, made[key][1], text) if is_more else text
    return dict(made.values())


def cookies(field: str, given: Any) -> dict[str, str | bytes]:
    """Return cookies by their names, of a mapping, pairs, a jar, or the text of a header."""
    if isinstance(given, (str, bytes)):
        parts = [each for each in str(_text(field, given)).split(";") if each.strip()]
        given = [each.strip().partition("=")[::2] for each in parts]
    given = pairs(field, given)
    return dict(_cookie(field, each, value) for each, value in given if value is not None)


def field_value(field: str, value: Any) -> str | bytes:
    """Return a value without blanks around it; bytes only if they are not UTF-8.

    Raises:
        BadArgument: it is no text, or would break the line.
    """
    text = _text(field, value)
    found = _CONTROL.search(text if isinstance(text, str) else text.decode("latin1"))
    refuse_if(found, field, f"it has {found and found[0]!a}, which would end the line")
    return text.strip() if isinstance(text, bytes) else text.strip(" \t")


def _pair(given: Any) -> tuple[Any, Any]:
    name, value = (given.name, given.value) if isinstance(given, Cookie) else given
    return name, value


def _listed(key: str, *values: str | bytes) -> str | bytes:
    separator = "; " if key == "cookie" else ", "
    if all(isinstance(each, str) for each in values):
        return separator.join(values)  # type: ignore[arg-type]
    return separator.encode().join(_bytes(values))


def _bytes(values: Iterable[str | bytes]) -> list[bytes]:
    return [each.encode() if isinstance(each, str) else each for each in values]


def _text(field: str, value: Any) -> str | bytes:
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(value)
    kind = type(value).__name__
    refuse_if(not isinstance(value, str), field, f"it is a {kind}, not a text, bytes or number")
    return str(value)


def _cookie(field: str, each: Any, value: Any) -> tuple[str, str | bytes]:
    name = str(_text(field, each))
    is_name = name.strip() and not set(name) & set(";=") and not _CONTROL.search(name)
    refuse_if(not is_name, f"{field}[{name!r:.60}]", "that is no name of a cookie")
    raw = value.coded_value if isinstance(value, Morsel) else value
    made = field_value(f"{field}[{name!r:.60}]", raw)
    refuse_if(b";" in _bytes([made])[0], f"{field}[{name!r:.60}]", "its ';' would end it; use %3B")
    return name, made
