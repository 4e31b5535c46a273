"""What the demo crawls."""

import http.client
import socket
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pyspider_zk.demo.site import DemoSite, SiteServer, documentation, foreign, ours
from pyspider_zk.errors import ClusterError, MissingService

LINK = '<a href="sub/a.html">a</a>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(LINK, encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text("a", encoding="utf-8")
    return tmp_path


def get(site: DemoSite, *paths: str) -> list[tuple[int, bytes]]:
    """Ask for paths over one connection."""
    link = http.client.HTTPConnection(urlsplit(site.start).netloc, timeout=60)
    answers = []
    for path in paths:
        link.request("GET", path)
        answer = link.getresponse()
        answers.append((answer.status, answer.read()))
    link.close()
    return answers


def test_a_folder_is_served_walked_and_counted(folder: Path) -> None:
    with ours(folder) as site:
        assert get(site, "/sub/a.html", "/sub/a.html") == [(200, b"a")] * 2
        assert get(site, "/none.html")[0][0] == 404

    root = site.start.removesuffix("index.html")
    assert site.expected == {site.start, f"{root}sub/a.html"}
    assert site.asked == ["/sub/a.html", "/sub/a.html", "/none.html"]
    assert site.page == LINK


def test_connections_wait_for_a_site_that_is_busy() -> None:
    with SiteServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server, ExitStack() as opened:
        for _ in range(200):  # none of them is accepted
            link = socket.create_connection(server.server_address[:2], timeout=60)
            opened.enter_context(link)


def test_a_foreign_site_is_neither_walked_nor_counted(folder: Path) -> None:
    with ours(folder) as site:
        assert foreign(site.start) == DemoSite(site.start, LINK)


def test_a_folder_without_a_start_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"no index\.html"), ours(tmp_path):
        pass


@pytest.mark.parametrize("start", ["file:///etc/passwd", "index.html", "http://127.0.0.1:1/"])
def test_a_start_that_does_not_answer_over_http_is_refused(start: str) -> None:
    with pytest.raises(ClusterError):
        foreign(start)


def test_the_newest_documentation_is_taken(tmp_path: Path) -> None:
    for name in ("python3.9", "python3.13", "python3.2", "python3-lxml", "python3.14-venv"):
        (tmp_path / name / "html").mkdir(parents=True)
        (tmp_path / name / "html" / "index.html").touch()

    assert documentation(tmp_path) == tmp_path / "python3.13" / "html"


def test_a_machine_without_documentation_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingService, match="apt install python3-doc"):
        documentation(tmp_path)
