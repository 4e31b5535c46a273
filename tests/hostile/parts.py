"""Parts of hostile answers: bytes, and numbers for seconds of silence. Pure."""

import gzip
import itertools
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from functools import cache

Piece = bytes | float
"""What is sent next; a number: so many seconds nothing."""

Pieces = Iterable[Piece]

MB = 2**20
DRIP = 0.2  # seconds between two bytes
NEVER = 3600.0  # seconds, which nobody waits
_BROTLI = (
    "z///f/glQOKxQCD3/p/////wSwDEYQGA7v0/////4ZcAiMMiAN37f/7//8MvARCHBQC69//8//+HXwIgDgsAdO//+f//D78EQB"
    "wWAOje/+f//w9+CYA4LADQvf8B"
)


def head(*lines: str | bytes, status: str = "200 OK") -> bytes:
    """Return the head of an answer that ends with its connection."""
    told = [f"HTTP/1.1 {status}", "Connection: close", *lines, "", ""]
    return b"\r\n".join(each if isinstance(each, bytes) else each.encode() for each in told)


def page(
    body: bytes | str = b"", *lines: str | bytes, status: str = "200 OK", kind: str = "text/html"
) -> list[Piece]:
    """Return a whole answer."""
    sent = body.encode() if isinstance(body, str) else body
    return [
        head(f"Content-Type: {kind}", *lines, f"Content-Length: {len(sent)}", status=status),
        sent,
    ]


def moved(target: str | bytes, status: str = "302 Found") -> list[Piece]:
    place = target if isinstance(target, bytes) else target.encode()
    return page(b"<title>moved</title>", b"Location: " + place, status=status)


def encoded(body: bytes, how: str) -> list[Piece]:
    """Return a page that says how it is compressed."""
    return page(body, f"Content-Encoding: {how}")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunked(*pieces: Piece) -> list[Piece]:
    """Return a page in these chunks, and no last one."""
    begin = head("Content-Type: text/html", "Transfer-Encoding: chunked")
    return [begin, *(each if isinstance(each, float) else chunk(each) for each in pieces)]


def forever(*pieces: Piece) -> Iterator[Piece]:
    """Repeat them without end."""
    return itertools.cycle(pieces)


def then(first: Pieces, rest: Pieces) -> Iterator[Piece]:
    """Return one after the other."""
    return itertools.chain(first, rest)


def drip(text: bytes) -> Iterator[Piece]:
    """Repeat a text without end, a byte at a time."""
    return itertools.chain.from_iterable((bytes([each]), DRIP) for each in itertools.cycle(text))


@cache
def gzipped(unit: bytes, size: int, times: int = 1) -> bytes:
    """Return so many bytes of a repeated unit, compressed so many times."""
    data = unit * (size // len(unit))
    for _ in range(times):
        data = gzip.compress(data, 9)
    return data


@cache
def deflated(size: int) -> bytes:
    """Return so many spaces in the format of deflate."""
    return zlib.compress(b" " * size, 9)


def brotli_bomb() -> bytes:
    """Return 100 MB of spaces: 88 bytes."""
    return b64decode(_BROTLI)


def zstd_bomb(size: int) -> bytes:
    """Return so many spaces as blocks of one repeated byte."""
    block = 2**17
    begin = b"\x28\xb5\x2f\xfd\x00\x38"  # no checksum, a window of 128 kB
    blocks = [(block << 3 | 1 << 1).to_bytes(3, "little") + b" "] * (size // block)
    return begin + b"".join(blocks) + (1 << 1 | 1).to_bytes(3, "little") + b" "
