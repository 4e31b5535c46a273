"""Attacks on the web UI by HTTP: every route, by every method, as everybody."""

import http.client
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from tests.attack.canaries import KEPT, MEMBERS_ONLY, TASK
from tests.attack.doors import CHANGING, LOOKING, Who, needs

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
    "filename": "cluster.css",
}

_ORDERS: Mapping[str, Mapping[str, object]] = {
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
