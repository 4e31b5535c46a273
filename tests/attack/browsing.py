"""The browser of who is logged in to the web UI, and what pages of other sites do in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from tests.attack.evil import NAME, REBOUND, Evil
from tests.support.programs import chromium as chromium_program

PATIENCE = 240_000.0  # milliseconds for a page to try everything
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
        yield playwright.chromium.launch(executable_path=chromium_program(), args=options)


@contextmanager
def logged_in(
    chromium: Browser, web: str, login: LoginWay | None, name: str, password: str
) -> Iterator[BrowserContext]:
    """Give the profile of somebody who is logged in and looks at the web UI.

    With no login it is a web UI that needs none.
    """
    known = {"username": name, "password": password} if login is LoginWay.PASSWORD else None
    with chromium.new_context(http_credentials=known) as context:  # type: ignore[arg-type]
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
    page.goto(site.url)
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
