"""What a script sees of a page: its text, JSON and tree, by the right encoding, and its links."""

import codecs
import random
from typing import Any

import pytest

TITLE = "\u4e2d\u6587\u6807\u9898"
RARE = "\u9555\u20ac\U00020000"
GREETING = "\u041f\u0440\u0438\u0432\u0435\u0442"
PAD = "x" * 700
PAGE = "http://site.example/a/page.html"


def response(content: bytes | str, kind: str = "text/html", url: str = PAGE) -> Any:
    from pyspider.libs.response import rebuild_response

    return rebuild_response({"url": url, "content": content, "headers": {"Content-Type": kind}})


def html(title: str, head: str = "") -> str:
    return f"<html><head>{head}</head><body><p>words</p><h1>{title}</h1></body></html>"


def links(body: str, url: str = PAGE) -> list[str]:
    return [each.attr.href for each in response(body, url=url).doc("a").items()]


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("gb2312", "gb18030"),
        ("GBK", "gb18030"),
        ("x-gbk", "gb18030"),
        ("latin1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("x-cp1251", "cp1251"),
        ("x-sjis", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("big5", "big5hkscs"),
        ("tis-620", "cp874"),
        ("iso-8859-8-i", "iso8859-8"),
        ("unicode-1-1-utf-8", "utf-8"),
        ("utf-16", "utf-16-le"),
        ("hz-gb-2312", "hz"),
        ("johab", "johab"),
    ],
)
def test_a_header_names_a_charset_as_for_browsers(charset: str, codec: str) -> None:
    text = html("\xa7" if codec == "cp1252" else "title")
    page = response(text.encode(codec), f"text/html; charset={charset}")
    assert page.encoding == codec
    assert page.text == text


@pytest.mark.parametrize(
    "kind",
    [
        "text/html;charset=gbk",
        "Text/HTML; Charset = 'GBK' ",
        'text/html; x="charset=utf-8"; charset="gbk"',
        "text/html; charset=gbk; charset=utf-8",
        "text/html; charset=nonsense; charset=gbk",
        "text/html; charset=utf-8, text/html; charset=gbk",
        "text/html; charset=gbk, text/html",
    ],
)
def test_the_header_may_be_written_in_many_ways(kind: str) -> None:
    assert response(html(TITLE).encode("gbk"), kind).doc("h1").text() == TITLE


@pytest.mark.parametrize(
    ("content", "kind", "title"),
    [
        (html(RARE).encode("gb18030"), "text/html; charset=gb2312", RARE),
        (html(TITLE, "<meta charset=gbk>").encode("gbk"), "", TITLE),
        (html(TITLE, "<meta charset='gbk'>").encode(), "text/html; charset=utf-8", TITLE),
        (
            html(TITLE, "<meta content='text/html;charset=gbk' http-equiv=content-type>"),
            "gbk",
            TITLE,
        ),
        (html(TITLE, "<meta charset=bogus><meta charset=gbk>"), "gbk", TITLE),
        (html(TITLE, "<!-- <meta charset=big5> --><meta charset=gbk>"), "gbk", TITLE),
        (html(TITLE, "<meta name=charset content=big5>"), "gbk", TITLE),
        (html(TITLE, f"<title>{PAD * 6}</title><meta charset=gbk>"), "gbk", TITLE),
        (html(TITLE, "<meta charset=utf-16>"), "utf-8", TITLE),
        ("<?xml version='1.0' encoding='gbk'?>" + html(TITLE), "gbk", TITLE),
        ("<?xml version='1.0' encoding='utf-16'?>" + html(TITLE), "utf-8", TITLE),
        ("\ufeff" + html(TITLE, "<meta charset=gbk>"), "utf-8", TITLE),
        ("\ufeff" + html(TITLE, "<meta charset=gbk>"), "utf-16-le", TITLE),
        ("\ufeff" + html(TITLE), "utf-16-be", TITLE),
        ("\ufeff" + html(TITLE), "utf-32-le", TITLE),
        (html(TITLE), "utf-16-le", TITLE),
    ],
)
def test_a_page_declares_its_encoding(content: bytes | str, kind: str, title: str) -> None:
    """A text is a page in the encoding of the second column, which its header does not tell."""
    if isinstance(content, str):
        content, kind = content.encode(kind), "text/html"
    page = response(content, kind)
    assert page.doc("h1").text() == title
    assert page.etree.xpath("string(//h1)") == title
    assert f"<h1>{title}</h1>" in page.text
    assert not page.text.startswith("\ufeff")


def test_a_mark_counts_more_than_the_header() -> None:
    page = response(codecs.BOM_UTF8 + html(TITLE).encode(), "text/html; charset=gbk")
    assert page.text == html(TITLE)


@pytest.mark.parametrize(
    ("encoding", "title"),
    [
        ("utf-8", TITLE),
        ("utf-8", "\xa9"),
        ("gbk", TITLE),
        ("big5", "\u7e41\u9ad4\u4e2d\u6587"),
        ("shift_jis", "\u65e5\u672c\u8a9e"),
        ("euc_jp", "\u65e5\u672c\u8a9e"),
        ("iso2022_jp", "\u65e5\u672c\u8a9e"),
        ("euc_kr", "\ud55c\uad6d\uc5b4"),
        ("cp1251", GREETING),
        ("koi8-r", GREETING),
        ("cp1252", "caf\xe9 d\xe9j\xe0 vu"),
        ("cp1252", "\xa9 2026"),
        ("cp1253", "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1"),
    ],
)
@pytest.mark.parametrize(
    "before", ["", "<p>English words</p>" * 40, f"<script>{PAD * 500}</script>"]
)
def test_an_encoding_that_nobody_declares_is_found(encoding: str, title: str, before: str) -> None:
    page = response((before + html(f"Welcome: {title}")).encode(encoding))
    assert page.doc("h1").text() == f"Welcome: {title}"
    assert title in page.text


@pytest.mark.parametrize("broken", [b"\xff", b"\xe4\xb8", b"\0", b"\x1b[1m"])
def test_utf_8_with_something_broken_is_utf_8(broken: bytes) -> None:
    page = response(html(TITLE).encode() + broken + html(TITLE).encode())
    assert page.encoding == "utf-8"
    assert page.text.count(TITLE) == 2


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (f'{{"pad": "{PAD}", "title": "{TITLE}"}}'.encode(), "application/json"),
        (f'\ufeff{{"title": "{TITLE}"}}'.encode(), "application/json; charset=utf-8"),
        (f'\ufeff{{"title": "{TITLE}"}}', "application/json"),
        (f'\ufeff{{"title": "{TITLE}"}}'.encode("utf-16-be"), "application/json"),
        (f'{{"title": "{TITLE}"}}'.encode("utf-16-le"), "application/json"),
        (f'{{"title": "{TITLE}"}}'.encode("utf-32-be"), "application/json"),
        (f'{{"title": "{TITLE}"}}'.encode("gbk"), "application/json; charset=gbk"),
        (f'{{"title": "{TITLE}"}}'.encode("gbk"), "application/json"),
        (f'{{"a": "<meta charset=gbk>", "title": "{TITLE}"}}'.encode(), "application/ld+json"),
        (f'{{"title": "{TITLE}"}}'.encode(), "text/javascript; charset=utf8mb4"),
    ],
)
def test_json_is_read(content: bytes | str, kind: str) -> None:
    assert response(content, kind).json["title"] == TITLE


@pytest.mark.parametrize("content", ["", "<p>", "[" * 100_000, "1" * 5000, b"\xff\xfe\xff"])
def test_what_is_no_json_is_none(content: Any) -> None:
    assert response(content).json is None


@pytest.mark.parametrize("content", ["", "0", "null", "[]"])
def test_a_later_encoding_counts_for_everything(content: str) -> None:
    page = response((html(TITLE) + content).encode("gbk"), "text/html; charset=latin1")
    assert TITLE not in (page.text + page.doc("h1").text() + page.etree.xpath("string(//h1)"))
    page.encoding = "gbk"
    assert page.encoding == "gbk"
    assert TITLE in page.text
    assert page.doc("h1").text() == page.etree.xpath("string(//h1)") == TITLE
    page.encoding = None
    assert page.encoding == "cp1252"
    assert TITLE not in page.text


def test_a_later_encoding_counts_for_what_was_empty() -> None:
    page = response("0".encode("utf-16-be"), "application/json; charset=utf-16le")
    assert page.json is None
    page.encoding = "utf-16-be"
    assert page.json == 0


@pytest.mark.parametrize("encoding", ["nonsense", "utf-8\0", "rot13"])
def test_an_encoding_that_python_has_not_is_utf_8(encoding: str) -> None:
    page = response(html(TITLE).encode(), "text/html; charset=gbk")
    page.encoding = encoding
    assert page.text == html(TITLE)
    assert page.doc("h1").text() == TITLE


def test_an_encoding_that_a_script_sets_is_pythons() -> None:
    content = bytes(range(256))
    page = response(content)
    page.encoding = "latin-1"
    assert page.text.encode("latin-1") == content
    page = response(html(RARE).encode("gb18030"))
    page.encoding = "gb2312"
    assert page.doc("h1").text() == RARE


@pytest.mark.parametrize(
    "declaration", ["<?xml version='1.0' encoding='gbk'?>", "<meta charset=gbk>"]
)
def test_a_page_that_is_text_already_is_that_text(declaration: str) -> None:
    page = response(declaration + html(TITLE), "text/html; charset=gbk")
    assert page.encoding == "unicode"
    assert page.text == declaration + html(TITLE)
    assert page.doc("h1").text() == TITLE


@pytest.mark.parametrize(
    "content",
    ["", " \n ", "\ufeff", "<!-- nothing -->", "<!DOCTYPE html>", "<?xml version='1.0'?>", "</p>"],
)
def test_a_page_of_nothing_has_an_empty_document(content: str) -> None:
    for page in (response(content), response(content.encode())):
        assert not page.doc("a")
        assert page.doc.text() == ""
        assert page.etree.xpath("//a") == []


def test_feeds_and_xhtml_are_found_their_way() -> None:
    xml = '<?xml version="1.0" encoding="utf-8"?>'
    rss = f"{xml}<rss><channel><item><title>{TITLE}</title></item></channel></rss>"
    assert response(rss.encode(), "application/rss+xml").doc("item title").text() == TITLE
    atom = f'{xml}<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="/1"/></entry></feed>'
    page = response(atom.encode(), "application/atom+xml")
    assert page.doc("entry link").attr.href == "http://site.example/1"
    xhtml = f'{xml}<html xmlns="http://www.w3.org/1999/xhtml"><body><a href="b">1</a></body></html>'
    page = response(xhtml.encode(), "application/xhtml+xml")
    assert page.doc("a").attr.href == "http://site.example/a/b"


def test_bytes_of_any_kind_are_a_text() -> None:
    draw = random.Random(7)  # noqa: S311 - no secret
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    for start in (
        picture,
        b"",
        b"\xff\xfe",
        b"\0\0\xfe\xff",
        b"\x1b$B",
        b"<meta charset=",
        b"\0a\0",
    ):
        page = response(start + draw.randbytes(50_000), "image/png")
        assert isinstance(page.text, str)
        assert len(page.doc) == 1


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("b.html", "http://site.example/a/b.html"),
        ("../b", "http://site.example/b"),
        ("/b?q#f", "http://site.example/b?q#f"),
        ("?q=1", "http://site.example/a/page.html?q=1"),
        ("#top", "http://site.example/a/page.html#top"),
        ("", PAGE),
        ("//other.example/b", "http://other.example/b"),
        ("https://other.example/\u4e2d b", "https://other.example/\u4e2d b"),
        (" \n /b\t\x0c ", "http://site.example/b"),
        ("/it\n\tem/\r1", "http://site.example/item/1"),
        ("https://other.example/\nb", "https://other.example/b"),
        ("dir\\b.html?x=\\", "http://site.example/a/dir/b.html?x=\\"),
        ("\\\\other.example\\b", "http://other.example/b"),
        *(
            (each, each)
            for each in (
                "mailto:ann@example.org",
                "javascript:f('\\n',\n1)",
                "JavaScript:void(0)",
                "data:text/html,<b> </b>",
                "tel:+49 1",
                "http://[x",
                " http://[x ",
                "//[x/",
                "http://|file|\u4e2d\u2100\u53cc.rmvb|/",
                "http://other.example:99999/",
                "http://other.example:port/",
            )
        ),
    ],
)
def test_a_link_is_absolute_as_in_browsers(href: str, url: str) -> None:
    escaped = href.replace('"', "&quot;")
    body = f'<p><a href="{escaped}">1</a><a href="/good">2</a></p>'
    assert links(body) == [url, "http://site.example/good"]


def test_links_of_every_kind_are_absolute() -> None:
    kinds = ("link href", "script src", "img src", "iframe src", "form action", "area href")
    for tag, name in (each.split() for each in kinds):
        body = f"<div><{tag} {name}='x'></{tag}><b>text</b></div>"
        assert response(body).doc(tag).attr(name) == "http://site.example/a/x"


def test_a_tree_has_its_links_as_written_until_the_document_is_read() -> None:
    page = response("<p><a href='x'>1</a></p>")
    assert page.etree.xpath("//a/@href") == ["x"]
    assert page.doc("a").attr.href == "http://site.example/a/x"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("<base href='/elsewhere/'>", "http://site.example/elsewhere/x"),
        ("<base href='../up'>", "http://site.example/x"),
        ("<base href='//other.example/b/'>", "http://other.example/b/x"),
        ("<base href=' https://other.example/ '>", "https://other.example/x"),
        ("<base target=_top><base href='/1/'><base href='/2/'>", "http://site.example/1/x"),
        ("<!-- <base href='/1/'> -->", "http://site.example/a/x"),
        ("<base href=''>", "http://site.example/a/x"),
        ("<base href='http://[x'><base href='/2/'>", "http://site.example/a/x"),
        ("<base href='data:text/html,'>", "http://site.example/a/x"),
        ("<base href='javascript:1'>", "http://site.example/a/x"),
    ],
)
def test_links_are_relative_to_the_base(base: str, url: str) -> None:
    assert links(f"<html><head>{base}</head><body><a href=x>1</a></body></html>") == [url]


def test_the_url_of_a_page_may_be_anything() -> None:
    for url in ("", "data:,x", "http://[x/"):
        assert links("<p><a href='b'>1</a></p>", url) == ["b"]
