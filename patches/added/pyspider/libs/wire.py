"""Text on the wire: header lines, in which each character of a text stands for one byte."""

from collections.abc import Mapping
from typing import Any

from tornado.httputil import HTTPHeaders

_FORM = "application/x-www-form-urlencoded"
_CODINGS = ("gzip", "deflate", "br", "identity", "*")


def encoded(value: str | bytes) -> str:
    """Return a text as the bytes of its UTF-8, each as one character; bytes as they are."""
    return (value.encode() if isinstance(value, str) else value).decode("latin1")


def decoded(value: str) -> str:
    """Return the text that bytes mean: UTF-8, or else Latin-1."""
    try:
        return value.encode("latin1").decode()
    except ValueError:
        return value


def headers(fetch: Mapping[str, Any]) -> HTTPHeaders:
    """Return the headers of a task.

    A body without a kind is sent as a form, as curl does. Of the encodings that it accepts remain
    those that are decoded.
    """
    given = fetch.get("headers") or {}
    made = HTTPHeaders({name: encoded(value) for name, value in given.items()})
    if fetch.get("data"):
        made.setdefault("Content-Type", _FORM)
    if "Accept-Encoding" in made and fetch.get("use_gzip", True):
        made["Accept-Encoding"] = _decodable(made["Accept-Encoding"])
    return made


def _decodable(accepted: str) -> str:
    each = (coding.strip() for coding in accepted.split(","))
    return ", ".join(one for one in each if one.partition(";")[0].strip().lower() in _CODINGS)
