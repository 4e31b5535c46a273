"""Browsers: the same-site rule (CSRF, DNS rebinding), and headers that restrict browsers.

pyspider's pages change projects and run scripts on a plain POST, and a browser adds the password
that it remembers to requests of other sites as well (CVE-2024-39163). Current browsers send with
each request where it comes from, so pages and forms need no tokens: ``Sec-Fetch-Site`` says it
directly, ``Origin`` and ``Referer`` by name. A request with none of them does not come from a
browser: scripts, curl and WebDAV clients work as before.

These checks rely on the name by which the browser reaches the web UI, and a site can let its own
name resolve to us. So only known names in ``Host`` are answered. An address is no name of a site.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspider.libs.origins import PORTS

from pyspider_zk.listening import is_loopback
from pyspider_zk.webui.access import SAFE, full_path, refuse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_OWN = ("same-origin", "none")  # "none": typed into the address bar, or a bookmark

_HOST = re.compile(
    r"(?P<name>\[[0-9a-f:.]+\]|[\w.-]+)(?P<port>:\d{1,5})?", re.ASCII | re.IGNORECASE
)

_REMEDY = (
    "use the pages of this web UI itself; if a proxy or a site of yours stands before it,"
    ' name its origin in "trusted_origins", such as https://crawl.example.org'
)

_UNKNOWN_HOST = (
    "this web UI does not know itself by this name; if it is yours, name it in the setting"
    ' "trusted_hosts", such as crawl.example.org'
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNREADABLE = "the address must be a path of %-encoded text in UTF-8 without control characters"

_EDITOR = "/cluster/editor"
_FRAMED = "/blank.html"
_STATIC = ("/static/", "/cluster/static/", "/login/static/")

_STRICT = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
_OF_CRAWLED = (  # a crawled page: shown with pictures and styles, and without scripts
    "default-src 'none'; img-src * data: blob:; media-src * data: blob:; font-src * data:;"
    " style-src * 'unsafe-inline'; frame-src data:; form-action 'none'; frame-ancestors 'self'"
)


@dataclass(frozen=True)
class Hosts:
    """The names by which browsers may reach the web UI, beside those of loopback.

    Attributes:
        names: in lower case, without ports.
        any_address: an address will do as well, because it listens on all of them.
    """

    names: frozenset[str] = frozenset()
    any_address: bool = False

    def know(self, given: str) -> bool:
        """Return whether a ``Host`` header is one of them, with or without a port."""
        found = _HOST.fullmatch(given)
        if found is None:
            return False
        name = found["name"].lower().strip("[]")
        return name in self.names or is_loopback(name) or (self.any_address and _is_address(name))


def hosts_of(listens: str, named: Iterable[str], origins: Iterable[str]) -> Hosts:
    """Return the known hosts.

    Args:
        listens: the address that the web UI binds; empty: all.
        named: names that were set, with or without port.
        origins: those that count as own.
    """
    given = [listens, *named, *(_normal(each).partition("://")[2] for each in origins)]
    found = [_HOST.fullmatch(each) for each in given]
    names = frozenset(each["name"].lower().strip("[]") for each in found if each)
    everywhere = listens in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return Hosts(names | {listens.lower()}, everywhere)


LOOPBACK = Hosts()


class Guard:
    """A WSGI application behind the same-site rule. Threads: any.

    Args:
        trusted: origins that may do what the own one may, such as ``https://crawl.example.org``.
        hosts: the names that it is known by.
    """

    def __init__(
        self, application: "WSGIApplication", trusted: Iterable[str] = (), hosts: Hosts = LOOPBACK
    ) -> None:
        self._application = application
        self._trusted = frozenset(map(_normal, trusted))
        self._hosts = hosts

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on, or answer 403; 400 to an address that the pages cannot read."""
        if not _is_readable(environ):
            return refuse(environ, start, HTTPStatus.BAD_REQUEST, _UNREADABLE)
        host = str(environ.get("HTTP_HOST", ""))
        if not self._hosts.know(host):
            detail = f"Host {host!r:.80}: {_UNKNOWN_HOST}"
            return refuse(environ, start, HTTPStatus.FORBIDDEN, detail)
        if is_foreign(environ, self._trusted):
            return refuse(environ, start, HTTPStatus.FORBIDDEN, _foreign(environ))
        return self._application(environ, start)


def is_foreign(environ: Mapping[str, Any], trusted: frozenset[str] = frozenset()) -> bool:
    """Return whether another site made a browser send this request, and it could change something.

    Args:
        trusted: normalized origins that count as own.
    """
    if environ["REQUEST_METHOD"] in SAFE:
        return False
    site = environ.get("HTTP_SEC_FETCH_SITE", "")
    source = environ.get("HTTP_ORIGIN") or environ.get("HTTP_REFERER") or ""
    if site in _OWN or (source and _normal(source) in trusted):
        return False
    return bool(site) or (bool(source) and not _is_own(source, environ))


def _is_readable(environ: Mapping[str, Any]) -> bool:
    """Return whether frameworks can read an address; they fail on raw bytes and on new lines."""
    path = full_path(environ)
    is_path = path in ("", "*") or path.startswith("/")  # otherwise all of it is the script's name
    return is_path and not _CONTROL.search(path) and str(environ.get("QUERY_STRING", "")).isascii()


def _is_own(source: str, environ: Mapping[str, Any]) -> bool:
    """Return whether a URL has the host that the request was sent to.

    The scheme is not compared: behind a proxy that terminates TLS it is unknown here.
    """
    scheme, _, host = _normal(source).partition("://")
    return bool(host) and host == _host(str(environ.get("HTTP_HOST", "")), scheme)


def _normal(url: str) -> str:
    """Return the origin of a URL, without the port if it is the scheme's own."""
    scheme, _, rest = url.strip().lower().partition("://")
    return f"{scheme}://{_host(rest.partition('/')[0], scheme)}"


def _host(netloc: str, scheme: str) -> str:
    """Return host and port, without the port if it is the scheme's own; empty if it is no host."""
    found = _HOST.fullmatch(netloc.lower())
    if found is None:
        return ""
    own = f":{PORTS.get(scheme)}"
    return found["name"] if found["port"] == own else found[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _foreign(environ: Mapping[str, Any]) -> str:
    source = environ.get("HTTP_ORIGIN") or environ.get("HTTP_REFERER") or "another site"
    return f"{environ['REQUEST_METHOD']} was sent by a page of {source!r:.200}: {_REMEDY}"


def policy_for(path: str, cdn: str = "") -> str:
    """Return the content security policy of an answer.

    Args:
        cdn: where the editor loads its libraries from; empty: from the web UI itself.
    """
    if path == _FRAMED:
        return _OF_CRAWLED
    source = _source(cdn)
    if path != _EDITOR or not source:
        return _STRICT
    return f"{_STRICT}; script-src 'self' {source}; style-src 'self' {source}"


def headers_for(path: str, cdn: str = "") -> dict[str, str]:
    """Return all headers of an answer, see ``policy_for``; answers with data are not cached."""
    headers = {
        "Content-Security-Policy": policy_for(path, cdn),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
    return headers if path.startswith(_STATIC) else headers | {"Cache-Control": "no-store"}


class Headers:
    """WSGI application that adds the headers to answers. Threads: any."""

    def __init__(self, application: "WSGIApplication", cdn: str = "") -> None:
        self._application = application
        self._cdn = cdn

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Answer; a header that the application sets replaces ours."""
        ours = headers_for(full_path(environ), self._cdn)

        def begin(status: str, headers: list[tuple[str, str]], *info: Any) -> Any:
            told = {name.lower() for name, _ in headers}
            missing = [each for each in ours.items() if each[0].lower() not in told]
            return start(status, [*headers, *missing], *info)

        return self._application(environ, begin)


def _source(cdn: str) -> str:
    """Return the origin of a URL in a policy's form; without a scheme it has the page's."""
    parts = urlsplit(cdn)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme else parts.netloc
