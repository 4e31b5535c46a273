"""The walk over files, on links that are easy to get wrong."""

import pytest

from pyspider_zk.demo.walk import links, pages

SITE = "http://127.0.0.1:8000/"


@pytest.fixture
def folder(tmp_path):
    def write(name, *hrefs):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        body = "".join(f'<a href="{href}">x</a>' for href in hrefs)
        file.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")

    write.path = tmp_path
    return write


def found(folder):
    return {url.removeprefix(SITE) for url in pages(folder.path, SITE)}


def test_links_are_followed_to_the_end(folder):
    folder("index.html", "a.html")
    folder("a.html", "deep/b.html")
    folder("deep/b.html", "../c.html", "./d.html")
    folder("c.html")
    folder("deep/d.html", "/e.html", f"{SITE}f.html")
    folder("e.html")
    folder("f.html")
    folder("alone.html")

    assert found(folder) == {
        "index.html", "a.html", "deep/b.html", "c.html", "deep/d.html", "e.html", "f.html",
    }  # fmt: skip


def test_circles_end(folder):
    folder("index.html", "a.html", "index.html")
    folder("a.html", "index.html", "a.html")

    assert found(folder) == {"index.html", "a.html"}


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
def test_what_is_no_page_of_the_site_is_left_out(folder, href):
    folder("index.html", href)
    folder("a.html")
    folder("a/index.html")

    assert found(folder) == {"index.html"}


def test_a_page_outside_of_the_folder_is_none_of_the_site(tmp_path):
    (tmp_path / "secret.html").write_text("secret", encoding="utf-8")
    (tmp_path / "site").mkdir()
    text = '<a href="%2e%2e/secret.html">x</a><a href="..%2fsecret.html">x</a>'
    (tmp_path / "site" / "index.html").write_text(text, encoding="utf-8")

    assert pages(tmp_path / "site", SITE) == {f"{SITE}index.html"}


def test_fragments_do_not_make_pages(folder):
    folder("index.html", "a.html#one", "a.html#two", "#three")
    folder("a.html")

    assert found(folder) == {"index.html", "a.html"}


def test_escapes_and_entities_are_understood(folder):
    folder("index.html", "a%20b.html", "c&amp;d.html")
    folder("a b.html")
    folder("c&d.html")

    assert found(folder) == {"index.html", "a%20b.html", "c&d.html"}


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
