"""Cookies of a fetch: the task's, as they were written, and those that sites set on the way."""

from collections.abc import Mapping
from typing import Any

from pyspider.fetcher.cookie_utils import extract_cookies_to_jar
from pyspider.libs import origins, wire
from requests.cookies import RequestsCookieJar, get_cookie_header
from tornado.httpclient import HTTPRequest, HTTPResponse


class TaskCookies:
    """Cookies that a request takes along.

    A site's follow the rules for cookies. A task's go to its origin, and to others only if they are
    trusted; one that its site sets is the site's from then on, also if it deletes it.

    Args:
        url: of the task.
        header: Cookie, as in a request.
        cookies: more of them, which replace those of the header.
        trusted: they may go to other origins, too, but not from https to http.
    """

    def __init__(self, url: str, header: str, cookies: Mapping[str, Any], *, trusted: bool) -> None:
        self._url = url
        self._trusted = trusted
        self._jar = RequestsCookieJar()
        added = {wire.encoded(name): wire.encoded(value) for name, value in cookies.items()}
        pairs = [each.strip() for each in header.split(";") if each.strip()]
        kept = [(_name(pair), pair) for pair in pairs if _name(pair) not in added]
        self._written = [*kept, *((name, f"{name}={value}") for name, value in added.items())]

    def header(self, request: HTTPRequest) -> str:
        """Return what a request without cookies has to say in its header."""
        is_meant = origins.may_have_all(self._url, request.url, trusted=self._trusted)
        written = [pair for _, pair in self._written if is_meant]
        return "; ".join([*written, *filter(None, [get_cookie_header(self._jar, request)])])

    def take(self, response: HTTPResponse) -> None:
        """Take the cookies that a page sets."""
        extract_cookies_to_jar(self._jar, response.request, response.headers)
        if origins.may_have_all(self._url, response.request.url, trusted=False):
            names = {_name(each) for each in response.headers.get_list("Set-Cookie")}
            self._written = [each for each in self._written if each[0] not in names]

    def values(self) -> dict[str, str]:
        """Return all of them, as a page has them."""
        written = {name: pair.partition("=")[2] for name, pair in self._written}
        return {
            wire.decoded(name): wire.decoded(value or "")
            for name, value in {**written, **self._jar.get_dict()}.items()
        }


def _name(pair: str) -> str:
    return pair.partition("=")[0].strip()
