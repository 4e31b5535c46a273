"""Hostile markup and charsets: what would take minutes or gigabytes is an error that says so."""

import subprocess
import sys
from typing import Any

import pytest

MANY = b" ".join(b"a%d=1" % number for number in range(3000))


def response(content: Any, charset: str = "") -> Any:
    from pyspider.libs.response import rebuild_response

    headers = {"Content-Type": f"text/html; charset={charset}"} if charset else {}
    return rebuild_response({"url": "http://x/page", "content": content, "headers": headers})


@pytest.mark.parametrize("attribute", ["doc", "etree"])
@pytest.mark.parametrize(
    "content",
    [
        b"<a %s>" % MANY,
        b"<p><a x='>' %s" % MANY + b">",
        b'<script>"</script><a x=">" %s>' % MANY,
        b"<!--><a %s>-->" % MANY,
        b"<a/" + MANY.replace(b"1 ", b"'1'/") + b">",
        b"<a\n" + MANY.replace(b"1 ", b"''") + b">",
        ("<a " + MANY.decode() + ">"),
        ("\ufeff<a " + MANY.decode() + ">").encode("utf-16-le"),
    ],
)
def test_an_element_with_thousands_of_attributes_is_not_parsed(
    content: bytes | str, attribute: str
) -> None:
    with pytest.raises(ValueError, match="1000 attributes of one element") as error:
        getattr(response(content), attribute)
    assert "http://x/page" in str(error.value)


def test_markup_of_many_nodes_is_not_parsed() -> None:
    with pytest.raises(ValueError, match="1000000 elements, attributes and comments"):
        _ = response(b"<p>x<!>" * 600_000).doc


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<img src='data:image/png;base64," + b"A+/ =" * 60_000 + b"'><p>seen", "seen"),
        (b"<script>" + b"if (a <b && c " * 20_000 + b"</script><p>seen", "seen"),
        (b"<!-- " + b"<a b c d " * 20_000 + b"--><p>seen", "seen"),
        (b"<p>seen" + b"<br>" * 50_000, "seen"),
        (b"<div>" * 200 + b"<p>seen", "seen"),
        ("<p>s\xe9en".encode("latin-1"), "s\xe9en"),
        ("<p>seen", "seen"),
    ],
)
def test_what_is_usual_is_parsed_as_before(content: bytes | str, text: str) -> None:
    page = response(content, "iso-8859-1" if isinstance(content, bytes) else "")
    assert page.doc("p").text() == text
    assert page.doc is page.doc


TREE = """
import resource, sys
from pyspider.libs.response import rebuild_response

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
page = rebuild_response({"url": "http://x/", "content": b"<p>" * (46 * 2**20 // 3)})
try:
    page.doc
except ValueError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_the_tree_of_a_large_page_fits_into_a_processor() -> None:
    done = subprocess.run([sys.executable, "-c", TREE], capture_output=True, text=True, check=True)
    assert int(done.stdout or 2000) < 300, "MB"


@pytest.mark.parametrize(
    "charset",
    [
        "punycode",
        "idna",
        "undefined",
        "rot13",
        "hex",
        "base64",
        "unicode_escape",
        "mbcs",
        "utf-7",
        "utf-8\0",
        "\xff",
        "nonsense",
        "../x",
        "x" * 500,
    ],
)
@pytest.mark.parametrize("place", ["header", "meta"])
def test_a_charset_that_is_none_counts_for_nothing(charset: str, place: str) -> None:
    body = f"<meta charset='{charset}'>" if place == "meta" else ""
    content = (body + "<p>caf\xe9 " + "caf\xe9 " * 100).encode()
    page = response(content, charset if place == "header" else "")
    assert page.encoding.lower() == "utf-8"
    assert page.text == content.decode()
    assert page.doc("p").text().startswith("caf\xe9")


def test_a_header_that_is_none_leaves_it_to_the_page() -> None:
    page = response("<meta charset='koi8-r'><p>\u0430".encode("koi8-r"), "punycode")
    assert page.encoding == "koi8-r"
