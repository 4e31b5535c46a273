"""Origins: what a task sends stays with the scheme, host and port that it was meant for."""

import re
from typing import Any
from urllib.parse import urlsplit

from pyspider.libs.fetchable import bad_url
from tornado.httputil import HTTPHeaders

PORTS = {"http": 80, "https": 443}
_UPGRADE = (("http", 80), ("https", 443))

_PLAIN = re.compile(
    r"accept(-charset|-encoding|-language)?|cache-control|connection|dnt|if-modified-since"
    r"|if-none-match|pragma|priority|range|referer|sec-.*|te|upgrade-insecure-requests|user-agent"
)
"""Headers that browsers send to everybody."""


def leave(request: dict[str, Any], target: str, *, trusted: bool) -> None:
    """Leave behind what is not meant for the target of a redirect.

    Args:
        request: of the redirected one: url, headers, body.
        trusted: all may go there, unless it leads from https to http.

    Raises:
        BadURL: the request has a body, which must stay.
    """
    if may_have_all(request["url"], target, trusted=trusted):
        return
    if request.get("body"):
        raise bad_url(target, "a body stays with its origin, unless location_trusted is set")
    is_open = _is_open(_origin(request["url"]), _origin(target))
    headers = request["headers"].get_all()
    plain = [each for each in headers if _is_plain(each[0].lower(), is_open=is_open)]
    request["headers"] = HTTPHeaders(dict(plain))


def may_have_all(url: str, target: str, *, trusted: bool) -> bool:
    """Return whether all that a task sends to one URL may go to another one."""
    begin, end = _origin(url), _origin(target)
    return _is_same(begin, end) or (trusted and not _is_open(begin, end))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _is_same(begin: tuple[Any, Any, Any], end: tuple[Any, Any, Any]) -> bool:
    """Return whether two origins are one; the same host by https is, as for cookies."""
    is_upgrade = ((begin[0], begin[2]), (end[0], end[2])) == _UPGRADE
    return begin == end or (is_upgrade and begin[1] == end[1])


def _is_open(begin: tuple[Any, Any, Any], end: tuple[Any, Any, Any]) -> bool:
    return begin[0] == "https" != end[0]


def _is_plain(name: str, *, is_open: bool) -> bool:
    if is_open and name == "referer":
        return False
    return _PLAIN.fullmatch(name) is not None
