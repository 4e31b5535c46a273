"""Attacks on the web UI by HTTP: every route, by every method, as everybody; and odd requests."""

import http.client
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from tests.attack.doors import CHANGING, LOOKING, Who, needs
from tests.attack.state import KEPT, MEMBERS_ONLY, TASK

PATIENCE = 30.0
ATTACKED = "attacked"
_ARGUMENT = re.compile(r"<(?:\w+:)?(\w+)>")
_VALUES = {
    "project": KEPT,
    "name": KEPT,
    "taskid": f"{KEPT}:{TASK}",
    "_format": "json",
    "number": "0",
    "slot": "0",
    "id": "nobody-asked-for-this",
    "script": f"{KEPT}.py",
    "saved_at": "1.5",
    "filename": "cluster.css",
}

_ORDERS: Mapping[str, Mapping[str, object]] = {
    "/api/v1/projects/<string:name>/script": {"script": ATTACKED},
    "/api/v1/settings": {"lease": 600},
    "/api/v1/maintenance": {"mode": "hold"},
    "/api/v1/assignment/rebalance": {"timeout": 1},
    "/api/v1/members/<int:number>/evict": {"undo": False},
    "/api/v1/slots/<int:slot>/pin": {"member": 0},
}

_TRIAL = json.dumps({"taskid": "t", "project": KEPT, "url": "data:,t"})

Login = Callable[[Who], Mapping[str, str]]


@dataclass(frozen=True)
class WebAnswer:
    """What came back."""

    status: int
    text: str

    @property
    def refused(self) -> bool:
        """Whether whoever asked was not let in."""
        return self.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def ask(
    address: str, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = {}
) -> WebAnswer:
    """Send one request."""
    link = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        link.request(method, path, body or None, dict(headers))
        with link.getresponse() as came:
            told = f"{came.headers}\n{came.read().decode('utf-8', 'replace')}"
            return WebAnswer(came.status, told)
    except http.client.HTTPException as error:
        return WebAnswer(0, f"no answer: {error!r}")
    finally:
        link.close()


def filled(route: str, project: str = KEPT) -> str:
    """Return a path of a route, of something that there is where that can be."""
    return _ARGUMENT.sub(lambda found: _VALUES[found[1]].replace(KEPT, project), route)


def names_a_project(route: str) -> bool:
    """Return whether what is changed there is a project, and nothing runs what was sent."""
    aims = any(part in filled(route) for part in (KEPT, "/update", "/run", "/batches"))
    return aims and route != "/debug/<project>/run"


def body_of(route: str, method: str, project: str = KEPT) -> tuple[bytes, Mapping[str, str]]:
    """Return what changes something there, if anything does, and with which headers."""
    if route == "/dav/<path:script>":
        return ATTACKED.encode(), {"Destination": f"/dav/{ATTACKED}.py", "Overwrite": "T"}
    if route.startswith("/api/v1/"):
        asked = _asked(route, project)
        return json.dumps(asked).encode(), {"Content-Type": "application/json"}
    form = {"script": ATTACKED, "task": _TRIAL, "pk": project, "name": "status", "value": "DEBUG"}
    form |= {"project": project, "_method": method}
    return urlencode(form).encode(), {"Content-Type": "application/x-www-form-urlencoded"}


def _asked(route: str, project: str) -> Mapping[str, object]:
    if route == "/api/v1/batches":
        return {"operation": "delete", "names": [project], "arguments": {"wait": False}}
    return {"all": True} if "dead-letters" in route else _ORDERS.get(route, {})


def unjudged(routes: Iterable[str]) -> list[str]:
    """Return the routes of which nobody has said who may use them."""
    missing = (route for route in routes if needs(route, "GET") is None)
    return [f"{route}: who may use it? say it in tests/attack/doors.py" for route in missing]


def attack(
    address: str, routes: Iterable[str], who: Who, login: Login, secrets: Iterable[str]
) -> Iterator[str]:
    """Try every route by every method as somebody; yield what should not have been answered."""
    hidden = [*secrets, *(MEMBERS_ONLY if who is Who.NOBODY else ())]
    for route in routes:
        for method in sorted(LOOKING | CHANGING):
            needed = needs(route, method)
            if needed is None or (method in CHANGING and needed <= who):
                continue  # what they may change they would change
            yield from _judged(address, route, method, who, needed, login(who), hidden)


def count(routes: Iterable[str], who: Who) -> int:
    """Return how many requests an attack takes."""
    tried = ((needs(route, method), method) for route in routes for method in LOOKING | CHANGING)
    return sum(not (needed is None or (m in CHANGING and needed <= who)) for needed, m in tried)


def _judged(
    address: str,
    route: str,
    method: str,
    who: Who,
    needed: Who,
    login: Mapping[str, str],
    hidden: Iterable[str],
) -> Iterator[str]:
    body, headers = body_of(route, method) if method in CHANGING else (b"", {})
    answer = ask(address, method, filled(route), body, {**headers, **login})
    what = f"{method} {route} as {who.name.lower()}"
    if answer.refused != (who < needed) or not answer.status:
        yield f"{what}: {answer.status or answer.text}, though it takes {needed.name.lower()}"
    yield from told(what, answer.text, hidden)


def told(what: str, text: str, hidden: Iterable[str]) -> Iterator[str]:
    """Yield which hidden things an answer tells."""
    yield from (f"{what}: tells {canary!r}" for canary in hidden if canary in text)


_SAVE, _RUN = f"/debug/{KEPT}/save", f"/debug/{KEPT}/run"
_SCRIPT = "/api/v1/projects/<string:name>/script"

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
_API_FRONTS = (
    "/api/v1/",
    "/api/v1//",
    "/api/v1/%2f",
    "/api/v1/./",
    "/api/v1/x/../",
    "/api//v1/",
    "//api/v1/",
    "/%2fapi%2fv1%2f",
    "/api/v1/;/",
    "/api/v1/batches/../",
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


def attack_oddly(address: str, login: Mapping[str, str], hidden: Iterable[str]) -> Iterator[str]:
    """Try to reach what only an admin may; yield what answers told.

    Whether something changed is for the caller to look.
    """
    canaries = list(hidden)
    for method, path, more in odd_requests():
        route = _SCRIPT if path.endswith("/script") else "/debug/<project>/save"
        body, kind = body_of(route, "POST")
        answer = ask(address, method, path, body, {**kind, **more, **login})
        yield from told(f"{method} {path} {dict(more)}", answer.text, canaries)


def odd_requests() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield method, path and headers of each request."""
    for front in _FRONTS:
        for target in (_SAVE, _RUN, f"/dav/{KEPT}.py"):
            path = front + target.lstrip("/")
            yield "PUT" if "/dav/" in target else "POST", path, {}
    for front in _API_FRONTS:
        yield "PUT", f"{front}projects/{KEPT}/script", {}
    for end in _ENDS:
        for target in (_SAVE, _RUN):
            yield "POST", target + end, {}
    for headers in _HEADERS:
        asked = ("GET", _SAVE), ("POST", _SAVE), ("POST", "/login/"), ("GET", "/api/v1/projects")
        yield from ((method, path, headers) for method, path in asked)
    for method in ("post", "Post", "POST ", "GETPOST", "TRACE", "PROPFIND", "HEAD", "QUERY"):
        yield method.strip(), _SAVE, {}
