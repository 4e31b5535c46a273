"""What a hostile site sends: a page is limited while it is read, and all pages together."""

import gzip
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.robotparser import RobotFileParser

import pytest
from pyspider.libs.fetchable import readable_rules

from tests.patches.conftest import fetch, serving

MB = 2**20

TWICE = gzip.compress(gzip.compress(b"\0" * 64 * MB))
BODIES = {
    "/plain": ("", b"\0" * 9 * MB),
    "/gzip": ("gzip", gzip.compress(b"\0" * 98 * MB)),
    "/deflate": ("deflate", zlib.compress(b"\0" * 98 * MB)),
    "/twice": ("gzip, gzip", TWICE),
    "/large": ("", b"\0" * 7 * MB),
    "/small": ("gzip", gzip.compress(b"small" * 1000)),
    "/robots": ("", b"page"),
    "/robots.txt": (
        "gzip",
        gzip.compress(b"User-agent: *\nDisallow: /closed\n" + b"allow://[\n" * 2_000_000),
    ),
}


class HostileSite(BaseHTTPRequestHandler):
    """A site that sends what it can to fill memory, or to take time."""

    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/round" else 200)
        path = self.path.partition("?")[0]
        if path == "/heads":
            for number in range(4000):
                self.send_header(f"X-{number}", "x")
        if path == "/odd":
            self.send_header("X\xff", "no header: its name is no token")
            self.send_header("X-After", "it")
        if path == "/round":
            self.send_header("Location", "/round")
        encoding, body = BODIES.get(path, ("", b"page"))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Length", str(len(body)))
        with suppress(OSError):  # the fetcher has gone
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with serving(HostileSite) as url:
        yield url


@pytest.mark.parametrize("path", ["/plain", "/gzip", "/deflate"])
def test_a_page_beyond_the_limit_is_a_failed_fetch_that_names_it(
    fetcher: Any, hostile: str, path: str
) -> None:
    result = fetch(fetcher, f"{hostile}{path}")
    assert (result["status_code"], result["content"]) == (599, "")
    assert "the page has more than 8388608 bytes (page_limit)" in result["error"]


def test_a_page_compressed_twice_is_refused_before_it_is_inflated(
    fetcher: Any, hostile: str
) -> None:
    result = fetch(fetcher, f"{hostile}/twice")
    assert result["status_code"] == 599
    assert "compressed more than once" in result["error"]


def test_a_compressed_page_within_the_limit_is_fetched(fetcher: Any, hostile: str) -> None:
    assert fetch(fetcher, f"{hostile}/small")["content"] == b"small" * 1000


def test_too_many_headers_are_a_failed_fetch(fetcher: Any, hostile: str) -> None:
    result = fetch(fetcher, f"{hostile}/heads")
    assert result["status_code"] == 599
    assert "the page has more than 1000 headers" in result["error"]


def test_what_is_no_header_is_passed_over(fetcher: Any, hostile: str) -> None:
    result = fetch(fetcher, f"{hostile}/odd")
    assert (result["status_code"], result["headers"]["X-After"]) == (200, "it")


def test_redirects_end_however_many_a_task_allows(fetcher: Any, hostile: str) -> None:
    result = fetch(fetcher, f"{hostile}/round", max_redirects=10**9)
    assert result["status_code"] == 599
    assert "Maximum (100) redirects followed" in result["error"]


def test_of_a_robots_txt_only_the_beginning_counts(fetcher: Any, hostile: str) -> None:
    assert fetch(fetcher, f"{hostile}/robots", robots_txt=True)["content"] == b"page"
    assert fetch(fetcher, f"{hostile}/closed", robots_txt=True)["status_code"] == 403
    [rules] = fetcher.robots_txt_cache.values()
    assert len(rules.default_entry.rulelines) < 500 * 1024


def test_of_the_odd_lines_of_a_robots_txt_only_some_are_tried() -> None:
    odd = [f"Disallow: http://[::1]/{number}" for number in range(3000)]
    rules = ["User-agent: *", "Disallow: /x", "", "Allow: /[y]", "no rule", *odd, "[", "Allow: /z"]
    assert readable_rules(rules)[:4] == ["User-agent: *", "Disallow: /x", "", "Allow: /[y]"]
    assert readable_rules(rules)[4:] == [*odd[:1000], "Allow: /z"]


@pytest.mark.parametrize(
    "line",
    [
        *("Disallow: http://[x", "Disallow: //%5Bx", "Disallow: //%E2%84%80.com/"),
        *("Disallow: /%09/%5Bx", "Crawl-delay: ²", "crawl-DELAY: %C2%B2", "Request-rate: 1/%C2%B2"),
        *(f"Crawl-delay: {'9' * 5000}", f"Request-rate: 1/{'9' * 5000}"),
    ],
)
def test_lines_of_a_robots_txt_that_cannot_be_read_are_left_out(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        RobotFileParser().parse(["User-agent: *", line])
    assert readable_rules(["User-agent: *", line, "Allow: /"]) == ["User-agent: *", "Allow: /"]


def test_of_a_robots_txt_in_another_script_every_rule_counts() -> None:
    rules = [f"Disallow: /ü{number}" for number in range(3000)]
    assert readable_rules(rules) == rules


TOGETHER = """
import resource, sys
from pyspider.libs.fetchable import readable_rules
from pyspider.fetcher import Fetcher
from tornado import gen

Fetcher.page_memory = 64 * 2**20
fetcher = Fetcher(None, None, poolsize=100)
url, path, pages = sys.argv[1], sys.argv[2], int(sys.argv[3])

@gen.coroutine
def fetched(path):
    page = yield fetcher.fetch({"project": "p", "taskid": "t", "url": url + path}, lambda *_: None)
    return page["status_code"]

def together():
    return gen.multi([fetched(path) for _ in range(pages)])

fetcher.ioloop.run_sync(lambda: fetched("/small"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
statuses = fetcher.ioloop.run_sync(together)
print(*set(statuses), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(("path", "status"), [("/gzip", 599), ("/deflate", 599), ("/large", 200)])
def test_many_pages_at_a_time_take_no_more_memory_than_they_may(
    hostile: str, path: str, status: int
) -> None:
    program = [sys.executable, "-c", TOGETHER, hostile, path, "80"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(status)
    assert int(done.stdout.split()[1]) < 300, "MB"
