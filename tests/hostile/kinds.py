"""Kinds of hostile answers, and how the task of each must end."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.hostile.parts import (
    MB,
    NEVER,
    Pieces,
    brotli_bomb,
    chunk,
    chunked,
    deflated,
    drip,
    encoded,
    forever,
    gzipped,
    head,
    moved,
    page,
    then,
    zstd_bomb,
)

SUCCESS, FAILED = 2, 3  # pyspider's numbers
SECRETS = re.compile(r"root:.*:0:0:")
"""What no answer may make a task tell: /etc/passwd."""


@dataclass(frozen=True)
class Ending:
    """How a task must end.

    Attributes:
        statuses: that are right.
        told: what a failure must tell, as a pattern; a failure tells something always.
    """

    statuses: tuple[int, ...]
    told: str = ""

    def fault(self, row: Mapping[str, Any] | None) -> str:
        """Return what is wrong with a task's row; nothing if nothing is."""
        if row is None:
            return "there is no task"
        if row["status"] not in self.statuses:
            return f"status {row['status']}, not one of {self.statuses}: {reason(row):.200}"
        if SECRETS.search(str(row)):
            return "it tells a file of the machine"
        if row["status"] == FAILED and not re.search(self.told or ".", reason(row), re.I | re.S):
            return f"failed without {self.told!r}: {reason(row):.200}"
        return ""


def reason(row: Mapping[str, Any]) -> str:
    """Return why a task failed, in all words that its row has."""
    track = row.get("track") or {}
    fetch, process = track.get("fetch") or {}, track.get("process") or {}
    told = (fetch.get("error"), process.get("exception"), process.get("logs"))
    return " ".join(str(each) for each in told if each)


# What a limit says is matched loosely, and here alone.
HARMLESS = Ending((SUCCESS,))
ERROR = Ending((FAILED,))
EITHER = Ending((SUCCESS, FAILED))
LATE = Ending((FAILED,), "time.?out|timed out")
TOO_LARGE = Ending((FAILED,), r"limit|more than \d+ (bytes|headers)|compressed|content.encoding")
TOO_RICH = Ending((FAILED,), r"not parsed|more than \d+|process timeout|time limit|page_limit")
AT_MOST_LATE = Ending((SUCCESS, FAILED), f"{TOO_RICH.told}|document is empty")
LOOPS = Ending((FAILED,), f"redirects followed|{LATE.told}")
NO_WAY = Ending(
    (FAILED,),
    "BadURL|not supported|rejected|malformed|is no|cannot|refused|not allowed|protocol|unsupported",
)


@dataclass(frozen=True)
class HostileRequest:
    """A request.

    Attributes:
        site: the site's own URL at this port, without a slash at the end.
        cluster: URL of a port of the cluster.
        path: what follows the name of the kind.
    """

    site: str
    cluster: str
    path: str


@dataclass(frozen=True)
class HostileKind:
    """A kind of hostile answer.

    Attributes:
        name: part of its URL.
        ends: how its task must end.
        answer: what is sent.
        robots: what is sent for robots.txt, on a port of its own.
        times: how many such pages there are.
        slow: for the full run alone.
    """

    name: str
    ends: Ending
    answer: Callable[[HostileRequest], Pieces]
    robots: Callable[[HostileRequest], Pieces] | None = None
    times: int = 1
    slow: bool = False


def _same(pieces: Callable[[], Pieces]) -> Callable[[HostileRequest], Pieces]:
    return lambda _: pieces()


def _attributes(begin: str, each: str = " a%d=1") -> str:
    return begin + "".join(each % number for number in range(60_000)) + ">"


def _charset(
    name: str, body: bytes = b"<title>t</title>" + b"a" * MB
) -> Callable[[HostileRequest], Pieces]:
    return lambda _: page(body, kind=f"text/html; charset={name}")


def _titled(title: str) -> Callable[[HostileRequest], Pieces]:
    return lambda _: page(f"<title>{title}</title>", kind="text/html; charset=utf-8")


def _to(target: str | bytes) -> Callable[[HostileRequest], Pieces]:
    return lambda _: moved(target)


def _json(body: str) -> Callable[[HostileRequest], Pieces]:
    return lambda _: page(body, kind="application/json")


FORMULA = '=HYPERLINK("http://evil.example/","here")'
FORGED = "FORGED by a hostile page"
"""Begins a line of a log only if a page could forge one."""

SCRIPT = "<img src=x onerror=alert(31337)>"
"""In a page of the web UI only if it could run there."""

_ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
ENTITIES_BOMB = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY e0 "lol">{_ENTITIES}]><l>&e9;</l>'
_XXE = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY f SYSTEM "file:///etc/passwd">]><l>&f;</l>'
_LINES = b"".join(b"X-%d: 1\r\n" % n for n in range(100_000))
_COOKIES = b"".join(b"Set-Cookie: c%d=1\r\n" % n for n in range(10_000))
_SITEMAP = "<urlset>" + "<url><loc>http://evil.example/</loc></url>" * 60_000 + "</urlset>"
_OK = b"<title>fine</title>"

_fine = _same(lambda: page(_OK))

# fmt: off
COMPRESSED = (
    HostileKind("gzip-bomb", TOO_LARGE, lambda _: encoded(gzipped(b" ", 100 * MB), "gzip"), times=10),
    HostileKind("deflate-bomb", TOO_LARGE, lambda _: encoded(deflated(100 * MB), "deflate")),
    HostileKind("brotli-bomb", TOO_LARGE, lambda _: encoded(brotli_bomb(), "br")),
    HostileKind("zstd-bomb", TOO_LARGE, lambda _: encoded(zstd_bomb(100 * MB), "zstd")),
    HostileKind("gzip-twice", TOO_LARGE, lambda _: encoded(gzipped(b" ", 100 * MB, 2), "gzip, gzip")),
    HostileKind("gzip-ten-times", TOO_LARGE, lambda _: encoded(b"", ", ".join(["gzip"] * 10))),
    HostileKind("gzip-two-headers", TOO_LARGE, lambda _: page(gzipped(b" ", MB, 2), *["Content-Encoding: gzip"] * 2)),
    HostileKind("gzip-lie", ERROR, lambda _: encoded(_OK, "gzip")),
    HostileKind("gzip-cut", EITHER, lambda _: encoded(gzipped(b"<p>", MB)[:500], "gzip")),
    HostileKind("elements-bomb", TOO_LARGE, lambda _: encoded(gzipped(b"<p>", 46 * MB), "gzip"), times=4, slow=True),
    HostileKind("elements", TOO_RICH, lambda _: encoded(gzipped(b"<p>", 7 * MB), "gzip"), times=4, slow=True),
    HostileKind("no-encoding", EITHER, lambda _: encoded(_OK, "x-unheard-of")),
)

DRIPS = (
    HostileKind("silence", LATE, lambda _: [NEVER]),
    HostileKind("drip-head", LATE, lambda _: then([head()[:-4]], drip(b"\r\nX: 1"))),
    HostileKind("drip-body", LATE, lambda _: then([head()], drip(b"<p>"))),
    HostileKind("drip-chunks", LATE, lambda _: then(chunked(), forever(chunk(b"a"), 0.2))),
    HostileKind("half-head", LATE, lambda _: [head()[:-4], NEVER]),
    HostileKind("half-body", LATE, lambda _: [head("Content-Length: 9999"), b"<p>", NEVER]),
)

ENDLESS = (
    HostileKind("endless-body", TOO_LARGE, lambda _: then([head()], forever(b"<p>" * 20_000)), times=4),
    HostileKind("endless-chunks", TOO_LARGE, lambda _: then(chunked(), forever(chunk(b"<p>" * 9999)))),
    HostileKind("endless-head", ERROR, lambda _: then([head()[:-4]], forever(b"\r\nX: " + b"a" * 999))),
    HostileKind("endless-line", ERROR, lambda _: then([head()[:-4], b"\r\nX: "], forever(b"a" * 65536))),
    HostileKind("endless-extension", ERROR, lambda _: then([*chunked(), b"1;"], forever(b"a" * 65536))),
    HostileKind("endless-trailer", ERROR, lambda _: then([*chunked(), b"0\r\n"], forever(b"X: 1\r\n" * 999))),
    HostileKind("endless-continue", ERROR, lambda _: forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 99)),
    HostileKind("endless-size", ERROR, lambda _: then(chunked(), forever(b"0" * 9999))),
)

REDIRECTS = (
    HostileKind("redirect-loop", LOOPS, lambda asked: moved(f"{asked.site}/redirect-loop")),
    HostileKind("redirect-chain", LOOPS, lambda asked: moved(f"{asked.site}/redirect-chain{asked.path}/a")),
    HostileKind("redirect-file", NO_WAY, _to("file:///etc/passwd")),
    HostileKind("redirect-data", EITHER, _to("data:text/html,<title>data</title>")),
    HostileKind("redirect-javascript", NO_WAY, _to("javascript:alert(1)")),
    HostileKind("redirect-gopher", NO_WAY, _to("gopher://127.0.0.1:6379/_FLUSHALL")),
    HostileKind("redirect-dict", NO_WAY, _to("dict://127.0.0.1:6379/FLUSHALL")),
    HostileKind("redirect-bytes", EITHER, _to(b"/fine/\xff\xfe\x80")),
    HostileKind("redirect-huge", ERROR, _to(b"/fine/" + b"a" * MB)),
    HostileKind("redirect-folded", EITHER, _to(b"/fine\r\n /folded")),
    HostileKind("redirect-cluster", ERROR, lambda asked: moved(asked.cluster)),
    HostileKind("redirect-login", ERROR, lambda asked: moved(asked.cluster.replace("//", "//admin:admin@"))),
    HostileKind("redirect-link-local", ERROR, _to("http://169.254.169.254/latest/meta-data/")),
    HostileKind("redirect-nowhere", ERROR, _to("http://127.0.0.1:1/")),
    HostileKind("redirect-port", ERROR, _to("http://127.0.0.1:99999/")),
    HostileKind("redirect-host", ERROR, _to("http://[::1/")),
    HostileKind("redirect-tls", ERROR, lambda asked: moved(asked.site.replace("http:", "https:"))),
    HostileKind("redirect-none", EITHER, lambda _: page(_OK, status="302 Found")),
    HostileKind("meta-refresh", HARMLESS, lambda _: page('<meta http-equiv=refresh content="0;url=file:///etc/passwd">')),
)

MARKUP = (
    HostileKind("attributes", TOO_RICH, lambda _: page(_attributes("<a")), times=2),
    HostileKind("attributes-quoted", TOO_RICH, lambda _: page(_attributes('<a x=">"'))),
    HostileKind("attributes-slashes", TOO_RICH, lambda _: page(_attributes("<svg", "/a%d"))),
    HostileKind("attributes-hidden", TOO_RICH, lambda _: page(_attributes("<!-- --!><a x='<!--'"))),
    HostileKind("attribute-huge", HARMLESS, lambda _: page(f'<img src="data:,{"a" * 4 * MB}"><p>x')),
    HostileKind("depth", AT_MOST_LATE, lambda _: page("<b>" * 1_000_000), slow=True),
    HostileKind("depth-divs", AT_MOST_LATE, lambda _: page("<div>" * 200_000)),
    HostileKind("tables", AT_MOST_LATE, lambda _: page("<table><tr><td>" * 50_000), slow=True),
    HostileKind("links", TOO_RICH, lambda _: page("<a href=/l>" * 700_000), slow=True),
    HostileKind("links-many", HARMLESS, lambda _: page("".join(f"<a href=/fine/{n}>" for n in range(5_000)))),
    HostileKind("links-strange", EITHER, lambda _: page("<a href='javascript:alert(1)'><a href='file:///etc/passwd'><a href='http://a:99999/'><a href='data:text/html,hi'><a href='//'><a href='http://\u202e.example/'>")),
    HostileKind("link-bad", EITHER, lambda _: page("<a href='http://[::1'>x</a>")),
    HostileKind("link-huge", ERROR, lambda _: page(f"<a href='/fine/{'a' * MB}'>x</a>")),
    HostileKind("comments", AT_MOST_LATE, lambda _: page("<!---->" * 1_000_000), slow=True),
    HostileKind("entities", HARMLESS, lambda _: page("<p>" + "&amp;&#x41;&unheard;" * 200_000), slow=True),
    HostileKind("text-huge", HARMLESS, lambda _: page("<p>" + "a" * 5 * MB), slow=True),
    HostileKind("unclosed", EITHER, lambda _: page("<!--" * 100_000 + "<script>" * 100_000), slow=True),
    HostileKind("xml-bomb", EITHER, lambda _: page(ENTITIES_BOMB, kind="text/xml")),
    HostileKind("xml-external", EITHER, lambda _: page(_XXE, kind="text/xml")),
    HostileKind("base-javascript", HARMLESS, lambda _: page("<base href='javascript:alert(1)//'><a href=/fine/b>x</a>")),
    HostileKind("base-file", HARMLESS, lambda _: page("<base href='file:///etc/'><a href=passwd>x</a>")),
    HostileKind("nul", EITHER, lambda _: page(b"\0" * MB)),
    HostileKind("empty", EITHER, lambda _: page()),
    HostileKind("random", EITHER, lambda _: page(gzipped(b"<p>", MB) * 100, kind="image/png")),
    HostileKind("sitemap", HARMLESS, lambda _: page(_SITEMAP, kind="application/xml"), slow=True),
    HostileKind("sitemap-bomb", EITHER, lambda _: page(gzipped(b"<url>", 99 * MB), kind="application/gzip")),
)

CHARSETS = (
    HostileKind("charset-punycode", HARMLESS, _charset("punycode")),
    HostileKind("charset-idna", HARMLESS, _charset("idna")),
    HostileKind("charset-undefined", HARMLESS, _charset("undefined")),
    HostileKind("charset-rot13", HARMLESS, _charset("rot13")),
    HostileKind("charset-zlib", HARMLESS, _charset("zlib")),
    HostileKind("charset-escape", HARMLESS, _charset("unicode_escape")),
    HostileKind("charset-utf-7", HARMLESS, _charset("utf-7", b"<title>+ADw-script+AD4-</title>")),
    HostileKind("charset-utf-16", EITHER, _charset("utf-16", "<title>t</title>".encode("utf-16-le"))),
    HostileKind("charset-lie", HARMLESS, _charset("utf-8", b"<title>\xe4\xff\xc0\x80</title>")),
    HostileKind("charset-huge", HARMLESS, _charset("x" * 50_000)),
    HostileKind("charset-path", HARMLESS, _charset("../../../../etc/passwd")),
    HostileKind("charset-meta-nul", HARMLESS, lambda _: page(b"<meta charset='utf-8\0'><title>t</title>")),
    HostileKind("charset-meta", HARMLESS, lambda _: page(b"<meta charset=undefined><title>t</title>")),
)

HEADS = (
    HostileKind("headers", ERROR, lambda _: [head()[:-2], _LINES, b"\r\n", _OK]),
    HostileKind("header-huge", ERROR, lambda _: page(_OK, "X: " + "a" * 10 * MB)),
    HostileKind("header-nul", ERROR, lambda _: page(_OK, b"X: a\0b")),
    HostileKind("header-folded", EITHER, lambda _: page(_OK, "X: a\r\n b\r\n\tc")),
    HostileKind("header-no-colon", EITHER, lambda _: page(_OK, "no colon at all")),
    HostileKind("header-bytes", EITHER, lambda _: page(_OK, b"X\xff: \xfe\x80")),
    HostileKind("etag-huge", EITHER, lambda _: page(_OK, f'ETag: "{"a" * 80_000}"')),
    HostileKind("cookies", ERROR, lambda _: [head()[:-2], _COOKIES, b"\r\n", _OK]),
    HostileKind("cookie-huge", ERROR, lambda _: page(_OK, "Set-Cookie: a=" + "b" * MB)),
    HostileKind("cookies-strange", HARMLESS, lambda _: page(_OK, "Set-Cookie: =;;;", b"Set-Cookie: a=\xff; Domain=.com; Expires=never; Max-Age=-1e9")),
    HostileKind("no-status", ERROR, lambda _: [_OK]),
    HostileKind("status-999", ERROR, lambda _: page(_OK, status="999 Go Away")),
    HostileKind("status-huge", ERROR, lambda _: page(_OK, status="99999999999 OK")),
    HostileKind("status-negative", ERROR, lambda _: page(_OK, status="-200 OK")),
    HostileKind("status-text", EITHER, lambda _: page(_OK, status="200 " + "a" * 50_000)),
    HostileKind("status-204", EITHER, lambda _: page(_OK, status="204 No Content")),
    HostileKind("status-304", EITHER, lambda _: page(b"", status="304 Not Modified")),
    HostileKind("status-101", ERROR, lambda _: [head("Upgrade: h2c", status="101 Switching Protocols"), NEVER]),
    HostileKind("status-401", ERROR, lambda _: page(_OK, "WWW-Authenticate: Negotiate", status="401 No")),
    HostileKind("status-407", ERROR, lambda _: page(_OK, "Proxy-Authenticate: Basic", status="407 No")),
    HostileKind("http-9", ERROR, lambda _: [head().replace(b"HTTP/1.1", b"HTTP/9.9"), _OK]),
    HostileKind("http-2", ERROR, lambda _: [b"\0\0\x12\4\0\0\0\0\0" + b"\0" * 18]),
    HostileKind("closed", ERROR, lambda _: []),
)

LENGTHS = (
    HostileKind("length-negative", EITHER, lambda _: [head("Content-Length: -1"), _OK]),
    HostileKind("length-less", EITHER, lambda _: [head("Content-Length: 7"), b"<title>and more</title>" * 999]),
    HostileKind("length-more", ERROR, lambda _: [head("Content-Length: 99999"), _OK]),
    HostileKind("length-huge", ERROR, lambda _: [head(f"Content-Length: {10**15}"), _OK]),
    HostileKind("length-beyond", EITHER, lambda _: [head(f"Content-Length: {10**30}"), _OK]),
    HostileKind("length-twice", EITHER, lambda _: [head("Content-Length: 5", "Content-Length: 9"), _OK]),
    HostileKind("length-and-chunks", EITHER, lambda _: [head("Content-Length: 5", "Transfer-Encoding: chunked"), chunk(_OK), chunk(b"")]),
    HostileKind("chunk-huge", ERROR, lambda _: [*chunked(), b"fffffffffffffffff\r\n", _OK]),
    HostileKind("chunk-negative", ERROR, lambda _: [*chunked(), b"-5\r\n", _OK]),
    HostileKind("chunk-cut", ERROR, lambda _: [*chunked(), b"ffff\r\n", _OK]),
)

ROBOTS = (
    HostileKind("robots-huge", HARMLESS, _fine, lambda _: page(b"Disallow: /x\n" * (20 * MB // 13), kind="text/plain")),
    HostileKind("robots-bomb", HARMLESS, _fine, lambda _: encoded(gzipped(b"Disallow: /x\n", 20 * MB), "gzip")),
    HostileKind("robots-rules", HARMLESS, _fine, lambda _: page("User-agent: *\n" + "Disallow: /[/]\n" * 1_000_000)),
    HostileKind("robots-loop", HARMLESS, _fine, lambda _: moved("/robots.txt")),
    HostileKind("robots-endless", HARMLESS, _fine, lambda _: then([head()], forever(b"Allow: /\n" * 9999))),
    HostileKind("robots-silent", EITHER, _fine, lambda _: [NEVER], slow=True),
)

CODE = (
    HostileKind("title-script", HARMLESS, _titled(f"&lt;/title>&lt;script>alert(31337)&lt;/script>{SCRIPT.replace('<', '&lt;')}")),
    HostileKind("title-formula", HARMLESS, _titled(FORMULA)),
    HostileKind("title-command", HARMLESS, _titled("@SUM(1+1)*cmd|' /C calc'!A0")),
    HostileKind("title-escapes", HARMLESS, _titled(f"\x1b[2J\x1b]0;x\x07\r\n{FORGED}\u2028{FORGED}")),
    HostileKind("title-bidi", HARMLESS, _titled("\u202egpj.exe\u2066\ufeff")),
    HostileKind("failure-escapes", ERROR, lambda _: page("<title>x</title>", status=f"500 \x1b[31m{FORGED}")),
    HostileKind("json-script", HARMLESS, _json(f'{{"title": "{SCRIPT}", "=1+1": "=1+1", "x": "\\n{FORGED}"}}')),
    HostileKind("json-deep", EITHER, _json("[" * 1_000_000)),
    HostileKind("json-deep-objects", EITHER, _json('{"title":' * 100_000)),
    HostileKind("json-number", EITHER, _json('{"title": 1' + "0" * 1_000_000 + "}")),
    HostileKind("json-infinite", EITHER, _json('{"title": 1e999, "a": NaN}')),
    HostileKind("json-surrogate", EITHER, _json('{"title": "\\ud800", "a": "\\u0000"}')),
    HostileKind("json-malformed", EITHER, _json('{"title": ')),
    HostileKind("json-wide", EITHER, _json('{"title": [' + "[],{}," * 900_000 + "0]}"), slow=True),
)

# fmt: on

KINDS = (
    *COMPRESSED,
    *DRIPS,
    *ENDLESS,
    *REDIRECTS,
    *MARKUP,
    *CHARSETS,
    *HEADS,
    *LENGTHS,
    *ROBOTS,
    *CODE,
)
"""All of them."""
