"""URLs that nobody can fetch, wherever they come from: the task, its proxy, or the site."""

import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.patches.conftest import fetch, serving

LONG = "http://127.0.0.1:1/" + "x" * 2**20

HOSTLESS = ["http://[", "http://]/", "HTTP://[::1", "http://ex\u2100mple/"]
UNPARSABLE = [*HOSTLESS, "http://a:b/", "http://a:99999999/"]
UNSENDABLE = ["http://a\0b/", "http://a b/", "http://\udc80/", "http://127.0.0.1:1/\udc80"]
UNSENDABLE += ["mailto:a@b", "file:///etc/passwd", "javascript:void(0)"]
BAD_PROXIES = ["[", "u:secret@[::1", "u:secret@a:b", "a:99999999", "\0", "\udc80"]
NO_DATA = ["data:", "data:text/html", "data:;base64,a", "data:;charset=absent;base64,YQ=="]


@pytest.fixture(autouse=True)
def absent_browsers(fetcher: Any) -> None:
    fetcher.phantomjs_proxy = fetcher.splash_endpoint = "http://127.0.0.1:1/"


@pytest.fixture
def odd_site() -> Iterator[str]:
    with serving(OddSite) as url:
        yield url


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


@pytest.mark.parametrize("url", [*UNPARSABLE, "http://a b/", "http://a%00b/", "http://\udc80/"])
def test_a_script_that_crawls_a_bad_url_learns_which(url: str) -> None:
    from pyspider.libs.fetchable import BadURL, task_url

    with pytest.raises(BadURL, match="cannot be fetched") as error:
        task_url(url)
    assert repr(url) in str(error.value)


TASK_URLS = [
    ("http://h", "http://h/"),
    ("http://H/A?b=c#d", "http://H/A?b=c#d"),
    ("http://h/a b?c d#e f", "http://h/a%20b?c%20d#e%20f"),
    ("http://h/%20%zz%C3%A9", "http://h/%20%zz%C3%A9"),
    ("http://h/\u00e9?\u4e2d", "http://h/%C3%A9?%E4%B8%AD"),
    (" \n http://h/a\n\t b \r\n", "http://h/a%20b"),
    ("http://h/{\"a\":'b'}", "http://h/{\"a\":'b'}"),
    ("http://h/../a", "http://h/../a"),
    ("http://b\u00fccher.example:81/", "http://xn--bcher-kva.example:81/"),
    ("http://u:p@fa\u00df.example/", "http://u:p@xn--fa-hia.example/"),
    ("http://\u2603.example/", "http://xn--n3h.example/"),
    ("http://[::1]:80/a", "http://[::1]:80/a"),
    ("data:,a b\u00e9", "data:,a b%C3%A9"),
    ("mailto:a@b", "mailto:a@b"),  # a page's links may be all kinds; fetching it fails
]


@pytest.mark.parametrize(("written", "made"), TASK_URLS)
def test_a_url_stays_as_it_is_written_but_for_what_cannot_be_sent(written: str, made: str) -> None:
    from pyspider.libs.fetchable import task_url

    assert task_url(written) == made
    assert task_url(made) == made


PLAIN = ["", "?", "#", "?#", "?a", "?a#", "#b", "?a#b", "??", "##", "?a?b#c?d#", "//a", ";a", "[a]"]
ORIGINS = [
    "http://h",
    "https://u:p@h:8",
    "http://1.2.3.4",
    "http://1.2.3.999",
    "http://h:0x",
    "http:",
]


@pytest.mark.parametrize("end", PLAIN)
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_plain_url_is_made_in_the_same_way_as_any_other(origin: str, end: str) -> None:
    from pyspider.libs.fetchable import BadURL, task_url

    def made(*params: object) -> str:
        try:
            return task_url(f"{origin}/p{end}", *params)
        except BadURL as error:
            return str(error)

    assert made() == made({}), "with parameters, if only none, nothing is taken for plain"


@pytest.mark.parametrize(
    ("url", "params", "made"),
    [
        ("http://h/?a=1#f", {"b": "c d"}, "http://h/?a=1&b=c+d#f"),
        ("http://h/", [("a", 1), ("a", 2)], "http://h/?a=1&a=2"),
        ("http://h/", {"a": [1, "\u00e9"]}, "http://h/?a=1&a=%C3%A9"),
        ("http://h/", "a=b c", "http://h/?a=b%20c"),
        ("http://h/", {}, "http://h/"),
    ],
)
def test_parameters_are_added_to_the_query(url: str, params: Any, made: str) -> None:
    from pyspider.libs.fetchable import task_url

    assert task_url(url, params) == made


SENT_URLS = [
    ("HTTP://H:80/../a/./b\\c", "http://h/a/b/c"),
    ("http:/h/", "http://h/"),
    ("http://h/%7b{}?'{}'", "http://h/%7b%7B%7D?%27{}%27"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("h/a", "http://h/a"),  # as in the address bar
    ("localhost:81/a", "http://localhost:81/a"),
]


@pytest.mark.parametrize(("url", "sent"), SENT_URLS)
def test_a_url_is_sent_as_browsers_send_it(url: str, sent: str) -> None:
    from pyspider.libs.fetchable import sent_url

    assert sent_url(url) == sent
    assert sent_url(sent) == sent


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
