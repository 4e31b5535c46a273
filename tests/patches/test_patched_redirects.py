"""Redirects: what a task sends stays with the origin that it was meant for."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.patches.conftest import fetch, serving

SECRETS = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Referer": "http://r/"}


class RedirectingSite(BaseHTTPRequestHandler):
    """A site that sends visitors elsewhere, and tells what they brought."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length).decode()
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        told = {"headers": dict(self.headers), "body": sent, "method": self.command}
        body = json.dumps(told).encode()
        self.send_response(int(query.get("code", ["302"])[0]) if "to" in query else 200)
        if "to" in query:
            self.send_header("Location", query["to"][0])
            self.send_header("Set-Cookie", "site=own")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def here() -> Iterator[str]:
    with serving(RedirectingSite) as url:
        yield url


@pytest.fixture
def there() -> Iterator[str]:
    with serving(RedirectingSite) as url:
        yield url


def seen(page: Any) -> dict[str, Any]:
    assert page["status_code"] == 200, page
    told: dict[str, Any] = json.loads(page["content"])
    return told


def test_another_origin_gets_no_header_or_cookie_of_the_task(
    fetcher: Any, here: str, there: str
) -> None:
    headers = {**SECRETS, "Cookie": "in_header=s3cret", "Accept-Language": "de"}
    page = fetch(fetcher, f"{here}/?to={there}/", headers=headers, cookies={"mine": "s3cret"})
    got = seen(page)["headers"]
    assert "s3cret" not in json.dumps(got)
    assert (got["Accept-Language"], got["Referer"]) == ("de", "http://r/")
    assert "pyspider" in got["User-Agent"]
    assert page["cookies"] == {"in_header": "s3cret", "mine": "s3cret", "site": "own"}


def test_the_same_origin_gets_all_of_it(fetcher: Any, here: str) -> None:
    page = fetch(fetcher, f"{here}/?to={here}/", headers=SECRETS, cookies={"mine": "s3cret"})
    got = seen(page)["headers"]
    assert (got["Authorization"], got["X-Api-Key"]) == ("Bearer s3cret", "s3cret")
    assert set(got["Cookie"].split("; ")) == {"mine=s3cret", "site=own"}


def test_cookies_are_there_again_when_a_redirect_leads_back(
    fetcher: Any, here: str, there: str
) -> None:
    page = fetch(fetcher, f"{here}/?to={there}/?to={here}/", headers=SECRETS, cookies={"a": "b"})
    got = seen(page)["headers"]
    assert "a=b" in got["Cookie"]
    assert "Authorization" not in got


def test_a_task_may_trust_where_it_is_led(fetcher: Any, here: str, there: str) -> None:
    options = {"headers": SECRETS, "cookies": {"mine": "s3cret"}, "location_trusted": True}
    got = seen(fetch(fetcher, f"{here}/?to={there}/", **options))["headers"]
    assert (got["Authorization"], got["X-Api-Key"]) == ("Bearer s3cret", "s3cret")
    assert "mine=s3cret" in got["Cookie"]


@pytest.mark.parametrize("code", [307, 308])
def test_a_body_is_not_sent_to_another_origin(
    fetcher: Any, here: str, there: str, code: int
) -> None:
    options = {"method": "POST", "data": "s3cret"}
    page = fetch(fetcher, f"{here}/?code={code}&to={there}/", **options)
    assert page["status_code"] == 599
    assert f"'{there}/' cannot be fetched: " in page["error"]
    assert "location_trusted" in page["error"]
    trusted = fetch(fetcher, f"{here}/?code={code}&to={there}/", **options, location_trusted=True)
    assert seen(trusted)["body"] == "s3cret"


def test_a_body_is_sent_again_within_the_origin(fetcher: Any, here: str) -> None:
    page = fetch(fetcher, f"{here}/?code=307&to={here}/", method="POST", data="kept")
    assert seen(page)["body"] == "kept"


def test_a_post_that_becomes_a_get_goes_on(fetcher: Any, here: str, there: str) -> None:
    page = fetch(fetcher, f"{here}/?code=303&to={there}/", method="POST", data="s3cret")
    assert (seen(page)["method"], seen(page)["body"]) == ("GET", "")


@pytest.mark.parametrize(
    ("begin", "target", "kept"),
    [
        ("https://a/", "http://a/", set()),
        ("https://a/", "http://a:443/", set()),
        ("http://a/", "https://a/", {"Authorization", "Referer"}),  # an upgrade
        ("http://a/", "https://a:8443/", {"Referer"}),
        ("http://a/", "http://A:80/x", {"Authorization", "Referer"}),
        ("http://a/", "http://a.b/", {"Referer"}),
        ("http://a@b/", "http://a/", {"Referer"}),
        ("http://[::1]/", "http://[::1]:80/", {"Authorization", "Referer"}),
    ],
)
def test_an_origin_is_scheme_host_and_port(begin: str, target: str, kept: set[str]) -> None:
    from pyspider.libs.origins import leave
    from tornado.httputil import HTTPHeaders

    headers = {"Authorization": "a", "Referer": "r"}
    request = {"url": begin, "headers": HTTPHeaders(headers)}
    leave(request, target, trusted=False)
    assert set(request["headers"]) == kept


def test_nothing_trusted_goes_from_https_to_http() -> None:
    from pyspider.libs.origins import leave
    from tornado.httputil import HTTPHeaders

    request = {"url": "https://a/", "headers": HTTPHeaders({"Authorization": "a"})}
    leave(request, "http://a/", trusted=True)
    assert set(request["headers"]) == set()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("begin", "target", "sent"),
    [
        ("https://a.b/", "http://a.b/", False),
        ("http://a.b/", "https://a.b/", True),
        ("http://a.b/x", "http://a.b/y", True),
        ("http://localhost:81/", "http://localhost:81/x", True),
        ("http://[::1]:81/", "http://[::1]:81/x", True),
    ],
)
def test_cookies_of_a_task_belong_to_its_origin(
    begin: str, target: str, *, sent: bool, trusted: bool
) -> None:
    from pyspider.libs.task_cookies import TaskCookies
    from tornado.httpclient import HTTPRequest

    cookies = TaskCookies(begin, "mine=s3cret", {}, trusted=trusted)
    assert cookies.header(HTTPRequest(target)) == ("mine=s3cret" if sent else "")
    assert cookies.values() == {"mine": "s3cret"}


@pytest.mark.parametrize(
    ("code", "method", "follows"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (308, "GET", "GET"),
    ],
)
def test_a_redirect_keeps_the_method_or_makes_it_a_get(
    fetcher: Any, here: str, code: int, method: str, follows: str
) -> None:
    options = {} if method in ("GET", "HEAD") else {"data": "x=1"}
    page = fetch(fetcher, f"{here}/?code={code}&to={here}/", method=method, **options)
    assert page["status_code"] == 200
    if method != "HEAD":
        got = seen(page)
        kind = got["headers"].get("Content-Type")
        is_kept = follows == method and method != "GET"
        form = "application/x-www-form-urlencoded"
        assert (got["method"], got["body"], kind) == (
            (follows, "x=1", form) if is_kept else ("GET", "", None)
        )


def test_a_redirect_that_is_not_wanted_is_the_page(fetcher: Any, here: str) -> None:
    page = fetch(fetcher, f"{here}/?to=/elsewhere", allow_redirects=False)
    assert (page["status_code"], page["headers"]["Location"]) == (302, "/elsewhere")
    assert "error" not in page
    assert page["cookies"] == {"site": "own"}


@pytest.mark.parametrize(("code", "to"), [(302, ""), (300, "/x"), (304, "/x")])
def test_a_redirect_that_leads_nowhere_is_the_page(
    fetcher: Any, here: str, code: int, to: str
) -> None:
    page = fetch(fetcher, f"{here}/?code={code}&to={to}")
    assert (page["status_code"], page.get("error")) == (code, None)


def test_a_site_s_cookie_takes_the_place_of_the_task_s(fetcher: Any, here: str) -> None:
    page = fetch(fetcher, f"{here}/?to={here}/", cookies={"site": "mine", "other": "mine"})
    assert seen(page)["headers"]["Cookie"] == "other=mine; site=own"
    assert page["cookies"] == {"site": "own", "other": "mine"}


LOCATIONS = [
    ("/a b", "/a%20b"),
    ("/%C3%A9", "/%C3%A9"),
    ("/\u00e9", "/%C3%A9"),
    (b"/\xd6\xd0".decode("latin1"), "/%D6%D0"),
    ("?q", "/from?q"),
    ("//h:80/x", "http://h/x"),
    ("  /x\t", "/x"),
    ("\\x", "/x"),
]


@pytest.mark.parametrize(("location", "target"), LOCATIONS)
def test_a_location_is_read_as_browsers_do(location: str, target: str) -> None:
    from pyspider.libs.fetchable import redirected_url

    raw = location if "\xd6" in location else location.encode().decode("latin1")
    made = redirected_url("http://here/from", raw)
    assert made == (target if target.startswith("http") else f"http://here{target}")


@pytest.mark.parametrize("location", ["mailto:a@b", "file:///etc/passwd", "data:,x", "ftp://h/"])
def test_a_redirect_leads_to_the_web_only(fetcher: Any, here: str, location: str) -> None:
    page = fetch(fetcher, f"{here}/?to={location}")
    assert page["status_code"] == 599
    assert repr(location) in page["error"]


class Hops:
    """A fetcher whose pages all redirect, a second each on its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.http_client = self
        self.allowed: list[float] = []

    async def fetch(self, request: Any, **_: Any) -> Any:
        from tornado.httpclient import HTTPResponse
        from tornado.httputil import HTTPHeaders

        self.now += 1.0
        self.allowed.append(request.request_timeout)
        return HTTPResponse(request, 302, HTTPHeaders(Location="/next"))


def test_redirects_have_one_time_out_and_it_counts_once() -> None:
    from pyspider.libs.http_fetch import HttpFetch, Lost
    from tornado.httputil import HTTPHeaders

    hops = Hops()
    request = {"url": "http://h/", "method": "GET", "request_timeout": 3.5}
    request |= {"headers": HTTPHeaders({"User-Agent": "x"})}
    fetching = HttpFetch(hops, {"fetch": {"max_redirects": 9}}, request, lambda: hops.now)
    with pytest.raises(Lost, match="timeout"):
        asyncio.run(fetching.run())
    assert hops.allowed == [3.5, 2.5, 1.5, 0.5]


def test_too_many_redirects_are_told(fetcher: Any, here: str) -> None:
    page = fetch(fetcher, f"{here}/?to={here}/?to={here}/", max_redirects=1)
    assert page["error"] == "HTTP 599: Maximum (1) redirects followed"
    assert page["traceback"] is None
