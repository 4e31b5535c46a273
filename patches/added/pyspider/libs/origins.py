"""Origins: what a task sends stays with the scheme, host and port that it was meant for."""

import re
from http.cookiejar import eff_request_host, request_port
from typing import Any
from urllib.parse import urlsplit

from pyspider.libs.fetchable import bad_url
from requests.cookies import MockRequest, RequestsCookieJar
from tornado.httpclient import HTTPRequest
from tornado.httputil import HTTPHeaders

_PORTS = {"http": 80, "https": 443}
_UPGRADE = (("http", 80), ("https", 443))

_PLAIN = re.compile(
    r"accept(-charset|-encoding|-language)?|cache-control|connection|dnt|if-modified-since"
    r"|if-none-match|pragma|priority|range|referer|sec-.*|te|upgrade-insecure-requests|user-agent"
)
"""Headers that browsers send to everybody."""


def bind(jar: RequestsCookieJar, request: dict[str, Any], *, trusted: bool) -> None:
    """Make the cookies of a task those of its origin.

    Those of a site follow the rules for cookies, by its domain.

    Args:
        request: of the task: url, headers.
        trusted: they may go to other hosts, too, but not from https to http.
    """
    asking = MockRequest(HTTPRequest(request["url"], headers=request["headers"]))
    for cookie in list(jar):
        jar.clear(cookie.domain, cookie.path, cookie.name)
        cookie.secure = asking.type == "https"
        if not trusted:
            cookie.domain = eff_request_host(asking)[1]
            cookie.port = request_port(asking) or "80"  # of https, too: so it is for a jar
            cookie.port_specified = True
        jar.set_cookie(cookie)


def leave(request: dict[str, Any], target: str, *, trusted: bool) -> None:
    """Leave behind what is not meant for the target of a redirect.

    Args:
        request: of the redirected one: url, headers, body.
        trusted: all may go there, unless it leads from https to http.

    Raises:
        BadURL: the request has a body, which must stay.
    """
    begin, end = _origin(request["url"]), _origin(target)
    is_open = begin[0] == "https" != end[0]
    carried = HTTPHeaders(request["headers"])
    carried.pop("Cookie", None)  # made anew of the jar
    request["headers"] = carried
    if _is_same(begin, end) or (trusted and not is_open):
        return
    if request.get("body"):
        raise bad_url(target, "a body stays with its origin, unless location_trusted is set")
    for name in list(carried):
        if not _is_plain(name.lower(), is_open=is_open):
            del carried[name]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _is_same(begin: tuple[Any, Any, Any], end: tuple[Any, Any, Any]) -> bool:
    """Return whether two origins are one; the same host by https is, as for cookies."""
    is_upgrade = ((begin[0], begin[2]), (end[0], end[2])) == _UPGRADE
    return begin == end or (is_upgrade and begin[1] == end[1])


def _is_plain(name: str, *, is_open: bool) -> bool:
    if is_open and name == "referer":
        return False
    return _PLAIN.fullmatch(name) is not None
