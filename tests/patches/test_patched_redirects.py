"""Redirects: what a task sends stays with the origin that it was meant for."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.patches.conftest import serving

SECRETS = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Referer": "http://r/"}


class RedirectingSite(BaseHTTPRequestHandler):
    """A site that sends visitors elsewhere, and tells what they brought."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length).decode()
        query = parse_qs(urlsplit(self.path).query)
        told = {"headers": dict(self.headers), "body": sent, "method": self.command}
        body = json.dumps(told).encode()
        self.send_response(int(query.get("code", ["302"])[0]) if "to" in query else 200)
        if "to" in query:
            self.send_header("Location", query["to"][0])
            self.send_header("Set-Cookie", "site=own")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

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


@pytest.fixture
def fetcher() -> Iterator[Any]:
    from pyspider.fetcher import Fetcher

    fetcher = Fetcher(None, None, async_mode=False)
    yield fetcher
    fetcher.close()


def fetch(fetcher: Any, url: str, **options: Any) -> Any:
    return fetcher.fetch({"project": "demo", "taskid": "t", "url": url, "fetch": options})


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


@pytest.mark.parametrize("code", [301, 307])
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

    headers = {"Authorization": "a", "Referer": "r", "Cookie": "c"}
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
    from pyspider.libs.origins import bind
    from requests import Request
    from requests.cookies import RequestsCookieJar, get_cookie_header

    jar = RequestsCookieJar()
    jar.set("mine", "s3cret")
    bind(jar, {"url": begin, "headers": {}}, trusted=trusted)
    assert bool(get_cookie_header(jar, Request("GET", target).prepare())) == sent
    assert jar.get_dict() == {"mine": "s3cret"}
