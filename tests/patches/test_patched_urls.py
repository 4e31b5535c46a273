"""URLs that nobody can fetch, wherever they come from: the task, its proxy, or the site."""

import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.patches.conftest import serving

LONG = "http://127.0.0.1:1/" + "x" * 2**20

HOSTLESS = ["http://[", "http://]/", "HTTP://[::1", "http://ex\u2100mple/"]
UNPARSABLE = [*HOSTLESS, "http://a:b/", "http://a:99999999/"]
UNSENDABLE = [
    "http://a\0b/",
    "http://127.0.0.1:1/\0",
    "http://a\nb/",
    "http://127.0.0.1:1/\r\nX: y",
]
UNSENDABLE += ["http://\udc80/", "http://127.0.0.1:1/\udc80", "http://127.0.0.1:1/\u2603"]
BAD_PROXIES = ["[", "u:secret@[::1", "u:secret@a:b", "a:99999999", "\0", "\udc80"]
NO_DATA = ["data:", "data:text/html", "data:;base64,a", "data:;charset=absent;base64,YQ=="]


@pytest.fixture
def fetcher() -> Iterator[Any]:
    from pyspider.fetcher import Fetcher

    fetcher = Fetcher(None, None, async_mode=False)
    fetcher.phantomjs_proxy = fetcher.splash_endpoint = "http://127.0.0.1:1/"
    yield fetcher
    fetcher.close()


@pytest.fixture
def odd_site() -> Iterator[str]:
    with serving(OddSite) as url:
        yield url


def fetch(fetcher: Any, url: str, **options: Any) -> Any:
    return fetcher.fetch({"project": "demo", "taskid": "t", "url": url, "fetch": options})


def traced(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages that were logged with a traceback."""
    return [record.getMessage() for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("url", [*UNPARSABLE, *UNSENDABLE, *NO_DATA])
@pytest.mark.parametrize("options", [{}, {"robots_txt": True}])
def test_a_bad_url_is_a_failed_fetch_that_names_it(
    fetcher: Any, caplog: pytest.LogCaptureFixture, url: str, options: dict[str, Any]
) -> None:
    result = fetch(fetcher, url, **options)
    assert result["status_code"] == 599
    assert f"{url!r} cannot be fetched" in result["error"]
    assert result["traceback"] is None
    assert traced(caplog) == []
    assert caplog.text.encode(), "a log that cannot be written is lost"


@pytest.mark.parametrize("url", UNPARSABLE)
@pytest.mark.parametrize("kind", ["js", "splash"])
@pytest.mark.parametrize("robots_txt", [False, True])
def test_a_bad_url_does_not_reach_a_browser(
    fetcher: Any, caplog: pytest.LogCaptureFixture, url: str, kind: str, *, robots_txt: bool
) -> None:
    result = fetch(fetcher, url, fetch_type=kind, robots_txt=robots_txt)
    assert f"{url!r} cannot be fetched" in result["error"]
    assert traced(caplog) == []


def test_a_long_bad_url_is_quoted_in_part(fetcher: Any) -> None:
    assert len(fetch(fetcher, f"{LONG}\n")["error"]) < 500


def test_a_long_url_is_only_a_url(fetcher: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert "connect" in fetch(fetcher, LONG)["error"]
    assert traced(caplog) == []


@pytest.mark.parametrize("proxy", BAD_PROXIES)
def test_a_bad_proxy_is_a_failed_fetch_that_keeps_its_password(
    fetcher: Any, caplog: pytest.LogCaptureFixture, proxy: str
) -> None:
    result = fetch(fetcher, "http://127.0.0.1:1/", proxy=proxy)
    assert "the proxy cannot be used" in result["error"]
    assert "secret" not in result["error"] + caplog.text
    assert traced(caplog) == []


def test_a_redirect_to_a_bad_url_is_a_failed_fetch(
    fetcher: Any, caplog: pytest.LogCaptureFixture, site: str
) -> None:
    result = fetch(fetcher, f"{site}/astray")
    assert "'http://[' cannot be fetched" in result["error"]
    assert traced(caplog) == []


def test_a_line_of_robots_txt_that_nobody_can_read_counts_for_nothing(
    fetcher: Any, caplog: pytest.LogCaptureFixture, odd_site: str
) -> None:
    assert fetch(fetcher, f"{odd_site}/open", robots_txt=True)["status_code"] == 200
    assert fetch(fetcher, f"{odd_site}/closed", robots_txt=True)["status_code"] == 403
    assert traced(caplog) == []


@pytest.mark.parametrize("url", [*HOSTLESS, "http://a..b/", f"http://{'a' * 70}/"])
def test_a_script_that_crawls_a_bad_url_learns_which(url: str) -> None:
    from pyspider.libs.url import _build_url

    with pytest.raises(ValueError, match="cannot be fetched") as error:
        _build_url(url, None)
    assert repr(url) in str(error.value)


def test_what_a_task_sends_along_is_not_logged(
    fetcher: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"Authorization": "Bearer secret"}
    fetch(fetcher, "http://127.0.0.1:1/", headers=headers, data="secret", cookies={"a": object()})
    fetch(fetcher, "http://[", headers=headers)
    assert "secret" not in caplog.text


class OddSite(BaseHTTPRequestHandler):
    """A site whose robots.txt has lines that the standard library fails at."""

    ROBOTS = "User-agent: *\nDisallow: http://[\nCrawl-delay: \u00b2\nDisallow: /closed\n"

    def do_GET(self) -> None:
        body = self.ROBOTS.encode() if self.path == "/robots.txt" else b"page"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""
