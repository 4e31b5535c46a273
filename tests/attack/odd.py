"""Attacks on the web UI by requests that two readers could read in two ways."""

from collections.abc import Iterable, Iterator, Mapping

from tests.attack.canaries import KEPT
from tests.attack.web import ask, body_of, told

_SAVE, _RUN = f"/debug/{KEPT}/save", f"/debug/{KEPT}/run"

_FRONTS = (
    "/",
    "//",
    "/./",
    "/.//",
    "/api/v1/../../",
    "/api/v1/%2e%2e/%2e%2e/",
    "/api/v1/..%2f../",
    "/api/v1//",
    "/login/../",
    "/login/%2e%2e/",
    "/login/..%2f",
    "/login//",
    "/login/static/../../",
    "/update/../",
    "/update/%2e%2e/",
    "/update;/",
    "/run/../",
    "/dav/../",
    "/dav/%2e%2e/",
    "/cluster/../",
    "/static/..//",
    "\\",
    "/%5c",
    "/%2f",
    "http://localhost/",
    "http://evil.example/",
)
_ENDS = ("", "/", "/.", "//", "%00", "%0a", ";/update", "?_method=GET", "#/update", "%20", ".json")

_HEADERS: tuple[Mapping[str, str], ...] = (
    {"X-HTTP-Method-Override": "POST"},
    {"X-HTTP-Method": "POST"},
    {"X-Method-Override": "POST"},
    {"X-Original-URL": _SAVE},
    {"X-Rewrite-URL": _SAVE},
    {"X-Forwarded-Prefix": "/api/v1"},
    {"X-Script-Name": "/login"},
    {"Script-Name": "/login"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-User": "admin"},
    {"X-Remote-User": "admin"},
    {"Remote-User": "admin"},
    {"Pyspider_zk.login": "admin"},
    {"Pyspider-Zk.Login": "admin"},
    {"X-Forwarded-Host": "localhost", "X-Forwarded-Proto": "https"},
)


def attack(address: str, login: Mapping[str, str], hidden: Iterable[str]) -> Iterator[str]:
    """Try to reach what only an admin may; yield what answers told.

    Whether something changed is for the caller to look.
    """
    canaries = list(hidden)
    for method, path, more in requests():
        body, kind = body_of("/debug/<project>/save", "POST")
        answer = ask(address, method, path, body, {**kind, **more, **login})
        yield from told(f"{method} {path} {dict(more)}", answer.text, canaries)


def requests() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield method, path and headers of each request."""
    for front in _FRONTS:
        for target in (_SAVE, _RUN, f"/dav/{KEPT}.py"):
            path = front + target.lstrip("/")
            yield "PUT" if "/dav/" in target else "POST", path, {}
    for end in _ENDS:
        for target in (_SAVE, _RUN):
            yield "POST", target + end, {}
    for headers in _HEADERS:
        for method, path in (("GET", _SAVE), ("POST", _SAVE), ("POST", "/login/"), ("GET", "/")):
            yield method, path, headers
    for method in ("post", "Post", "POST ", "GETPOST", "TRACE", "PROPFIND", "HEAD", "QUERY"):
        yield method.strip(), _SAVE, {}
