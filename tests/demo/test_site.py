"""What the demo crawls, and which pages it must find: links that are easy to get wrong."""

import http.client
import socket
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pyspider_zk.demo.site import DemoSite, SiteServer, documentation, foreign, links, ours, pages
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


@pytest.mark.parametrize(
    "start", ["file:///etc/passwd", "index.html", "http://127.0.0.1:1/", "http://h/a b", "http://["]
)
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


# -- walk ------------------------------------------------------------------------------------

SITE = "http://127.0.0.1:8000/"


@pytest.fixture
def write(tmp_path):
    def write_page(name, *hrefs):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        body = "".join(f'<a href="{href}">x</a>' for href in hrefs)
        file.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")

    write_page.path = tmp_path
    return write_page


def found(write):
    return {url.removeprefix(SITE) for url in pages(write.path, SITE)}


def test_links_are_followed_to_the_end(write):
    write("index.html", "a.html")
    write("a.html", "deep/b.html")
    write("deep/b.html", "../c.html", "./d.html")
    write("c.html")
    write("deep/d.html", "/e.html", f"{SITE}f.html")
    write("e.html")
    write("f.html")
    write("alone.html")

    assert found(write) == {
        "index.html", "a.html", "deep/b.html", "c.html", "deep/d.html", "e.html", "f.html",
    }  # fmt: skip


def test_circles_end(write):
    write("index.html", "a.html", "index.html")
    write("a.html", "index.html", "a.html")

    assert found(write) == {"index.html", "a.html"}


@pytest.mark.parametrize(
    "href",
    [
        "http://127.0.0.1:80001/a.html",
        "http://127.0.0.1/a.html",
        "https://127.0.0.1:8000/a.html",
        "http://127.0.0.1:8000.evil/a.html",
        "http://127.0.0.1:8000@evil/a.html",
        "http://evil127.0.0.1:8000/a.html",
        "http://127.0.0.1:99999/a.html",
        "http://[/a.html",
        "%2e%2e/a.html",
        "..%2fa.html",
        "//example.com/a.html",
        "mailto:a.html",
        "javascript:a.html",
        "a.html?x=1",
        "a.HTML",
        "a",
        "a/",
        "missing.html",
        "",
        "#a.html",
    ],
)
def test_what_is_no_page_of_the_site_is_left_out(write, href):
    write("index.html", href)
    write("a.html")
    write("a/index.html")

    assert found(write) == {"index.html"}


def test_a_page_outside_of_the_folder_is_none_of_the_site(tmp_path):
    (tmp_path / "secret.html").write_text("secret", encoding="utf-8")
    (tmp_path / "site").mkdir()
    text = '<a href="%2e%2e/secret.html">x</a><a href="..%2fsecret.html">x</a>'
    (tmp_path / "site" / "index.html").write_text(text, encoding="utf-8")

    assert pages(tmp_path / "site", SITE) == {f"{SITE}index.html"}


def test_fragments_do_not_make_pages(write):
    write("index.html", "a.html#one", "a.html#two", "#three")
    write("a.html")

    assert found(write) == {"index.html", "a.html"}


def test_escapes_and_entities_are_understood(write):
    write("index.html", "a%20b.html", "c&amp;d.html")
    write("a b.html")
    write("c&d.html")

    assert found(write) == {"index.html", "a%20b.html", "c&d.html"}


def test_only_links_that_a_reader_can_click_count():
    page = """
        <A HREF=a.html>upper case, no quotes</A>
        <a name="b.html">no link</a>
        <!-- <a href="c.html">comment</a> -->
        <script>document.write('<a href="d.html">')</script>
        <link rel="next" href="e.html">
        <a class="x" href='f.html'>quotes</a>
        <a href>nothing</a>
    """

    assert links(SITE, page) == {f"{SITE}a.html", f"{SITE}f.html"}
