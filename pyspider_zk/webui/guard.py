"""Refuses what another site makes a browser do here (CSRF).

pyspider's pages change projects and run scripts on a plain POST, and a browser adds the password
that it remembers to requests of other sites as well (CVE-2024-39163). Current browsers say with
each request where it comes from, so nothing has to be added to pages or forms: ``Sec-Fetch-Site``
tells it outright, ``Origin`` and ``Referer`` by name. A request with none of them comes from no
browser: scripts, curl and WebDAV clients go on as ever.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pyspider_zk.webui.problem import PROBLEM_TYPE, problem
from pyspider_zk.webui.readers import SAFE, VIEWER, ReadersOnly

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

COOKIES = {"SESSION_COOKIE_SAMESITE": "Lax", "SESSION_COOKIE_HTTPONLY": True}
"""Flask's settings for cookies that other sites' requests do not carry and scripts do not see."""

_OWN = ("same-origin", "none")  # "none": typed into the address bar, or a bookmark
_DEFAULT_PORTS = {"http": 80, "https": 443}

_UNFRAMED = (
    ("Content-Security-Policy", "frame-ancestors 'self'"),  # the editor frames a page of its own
    ("X-Content-Type-Options", "nosniff"),
)

_REMEDY = (
    "use the pages of this web UI itself; if a proxy or a site of yours stands before it,"
    ' name its origin in "trusted_origins", such as https://crawl.example.org'
)


class Guard:
    """A WSGI application behind the check.

    Threads: any.

    Args:
        application: what is guarded.
        trusted: origins that may do what the own one may, such as ``https://crawl.example.org``.
    """

    def __init__(self, application: "WSGIApplication", trusted: Iterable[str] = ()) -> None:
        self._application = application
        self._trusted = frozenset(map(_normal, trusted))

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on, or answer 403."""
        if is_foreign(environ, self._trusted):
            return _refuse(environ, start)
        return self._application(environ, _unframed(start))


@contextmanager
def guarded(
    flask_app: Any,
    trusted: Iterable[str],
    login_to_change: bool = False,
    viewer: tuple[str, str] = ("", ""),
) -> Iterator[None]:
    """Guard pyspider's pages and its WebDAV while the block runs.

    pyspider puts WebDAV beside the Flask application when it begins to serve.

    Args:
        trusted: see ``Guard``.
        login_to_change: without a login one may only look.
        viewer: name and password of who may only look.
    """
    behind, before = _webdav(), flask_app.wsgi_app
    looks = dict(zip(VIEWER, viewer, strict=True))
    ours = {**COOKIES, "login_to_change": login_to_change, **looks}
    others = {name: flask_app.config[name] for name in ours if name in flask_app.config}
    flask_app.wsgi_app = Guard(ReadersOnly(before, flask_app.config), trusted)
    flask_app.config.update(ours)
    dav_app = behind and behind.dav_app
    if behind is not None:  # it has its own ways to log in
        behind.dav_app = Guard(ReadersOnly(dav_app, looks), trusted)
    try:
        yield
    finally:
        flask_app.wsgi_app = before
        for name in ours:
            del flask_app.config[name]
        flask_app.config.update(others)
        if behind is not None:
            behind.dav_app = dav_app


def is_foreign(environ: Mapping[str, Any], trusted: frozenset[str] = frozenset()) -> bool:
    """Tell whether another site made a browser send this request, and it could change something.

    Args:
        environ: the request, as WSGI has it.
        trusted: normalized origins that count as own.
    """
    if environ["REQUEST_METHOD"] in SAFE:
        return False
    site = environ.get("HTTP_SEC_FETCH_SITE", "")
    source = environ.get("HTTP_ORIGIN") or environ.get("HTTP_REFERER") or ""
    if site in _OWN or (source and _normal(source) in trusted):
        return False
    return bool(site) or (bool(source) and not _is_own(source, environ))


def _is_own(source: str, environ: Mapping[str, Any]) -> bool:
    """Tell whether a URL has the host that the request was sent to.

    The scheme is not compared: behind a proxy that ends TLS nobody here knows it.
    """
    scheme, _, host = _normal(source).partition("://")
    return bool(host) and host == _host(str(environ.get("HTTP_HOST", "")), scheme)


def _normal(url: str) -> str:
    """Return the origin of a URL, without the port if it is the scheme's own."""
    scheme, _, rest = url.strip().lower().partition("://")
    return f"{scheme}://{_host(rest.partition('/')[0], scheme)}"


def _host(netloc: str, scheme: str) -> str:
    host = netloc.lower().rpartition("@")[2]
    return host.removesuffix(f":{_DEFAULT_PORTS.get(scheme)}")


def _unframed(start: "StartResponse") -> "StartResponse":
    """Let no other site show the answer in a frame: a click there would count as our own."""

    def begin(status: str, headers: list[tuple[str, str]], *info: Any) -> Any:
        told = {name.lower() for name, _ in headers}
        missing = [each for each in _UNFRAMED if each[0].lower() not in told]
        return start(status, [*headers, *missing], *info)

    return begin


def _refuse(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
    source = environ.get("HTTP_ORIGIN") or environ.get("HTTP_REFERER") or "another site"
    detail = f"{environ['REQUEST_METHOD']} was sent by a page of {source}: {_REMEDY}"
    body = json.dumps(problem(HTTPStatus.FORBIDDEN, detail)).encode()
    headers = [("Content-Type", PROBLEM_TYPE), ("Content-Length", str(len(body)))]
    start("403 Forbidden", headers)
    return [body]


def _webdav() -> Any:
    """Return pyspider's module for WebDAV, None if what it needs is not installed."""
    try:
        from pyspider.webui import webdav
    except ImportError:
        return None
    return webdav
