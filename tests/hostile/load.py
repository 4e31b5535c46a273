"""Strangers' load: what they send to a port without a login, and how many of them.

``python -m tests.hostile.load NAME,NAME URL...`` loads the ports of these URLs until it is killed.
"""

import asyncio
import socket
import ssl
import struct
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tests.hostile.kinds import ENTITIES_BOMB
from tests.hostile.parts import MB, NEVER, Pieces, chunk, drip, forever, gzipped, then

STRANGERS = ("127.0.0.66",)
"""Whoever may come in has another address."""

OPENING = 10.0  # seconds until all have sent something, or are turned away
BODY = 16 * MB


@dataclass(frozen=True)
class StrangerLoad:
    """One kind of load.

    Attributes:
        name: of it.
        times: connections to each port.
        sent: to a path, by one of them.
        reads: whether answers are read.
        resets: whether they leave at once when all is sent.
        peers: where they come from.
    """

    name: str
    times: int
    sent: Callable[[str], Pieces]
    reads: bool = True
    resets: bool = False
    peers: Sequence[str] = STRANGERS


def asked(method: str, path: str, *lines: str) -> bytes:
    """Return a request's head."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def _posted(path: str, body: bytes, *lines: str) -> bytes:
    return asked("POST", path, f"Content-Length: {len(body)}", *lines) + body


def _basic(text: str) -> str:
    return f"Authorization: Basic {b64encode(text.encode()).decode()}"


_FORM = "Content-Type: application/x-www-form-urlencoded"
_LENGTH = f"Content-Length: {BODY}"
_CHUNKED = "Transfer-Encoding: chunked"
_PROPERTIES = "".join(f"<p{n}/>" for n in range(60_000)).encode()
_PROPFIND = b'<propfind xmlns="DAV:"><prop>%s</prop></propfind>' % _PROPERTIES
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# fmt: off
LOADS = (
    StrangerLoad("silent", 300, lambda _: [NEVER]),
    StrangerLoad("half-heads", 300, lambda path: [asked("POST", path)[:-2], NEVER]),
    StrangerLoad("half-bodies", 70, lambda path: [asked("POST", path, _LENGTH), b"a" * (BODY - 1), NEVER]),
    StrangerLoad("no-bodies", 100, lambda path: [asked("POST", path, _LENGTH), NEVER]),
    StrangerLoad("drip-heads", 100, lambda path: then([asked("GET", path)[:-4]], drip(b"\r\nX: 1"))),
    StrangerLoad("drip-bodies", 100, lambda path: then([asked("POST", path, _LENGTH)], drip(b"a"))),
    StrangerLoad("pipelined", 10, lambda path: [asked("GET", path) * 2000, NEVER]),
    StrangerLoad("unread", 20, lambda path: [asked("GET", path) * 2000, NEVER], reads=False),
    StrangerLoad("huge-header", 10, lambda path: [asked("GET", path, "X: " + "a" * 10 * MB), NEVER]),
    StrangerLoad("growing-head", 10, lambda path: then([asked("GET", path)[:-4]], forever(b"\r\nX: 1" * 999, 0.05))),
    StrangerLoad("huge-path", 20, lambda path: [asked("GET", path + "a" * 60_000), NEVER]),
    StrangerLoad("growing-chunks", 10, lambda path: then([asked("POST", path, _CHUNKED)], forever(chunk(b"a" * 9999), 0.01))),
    StrangerLoad("growing-size", 20, lambda path: then([asked("POST", path, _CHUNKED)], forever(b"0" * 999, 0.05))),
    StrangerLoad("hellos", 100, lambda _: [_HELLO, NEVER]),
    StrangerLoad("broken-tls", 50, lambda _: [_HELLO + b"\xff" * 600, NEVER]),
    StrangerLoad("wrong-logins", 10, lambda path: [asked("GET", path.replace("login/", ""), _basic(f"guest{n}:wrong")) for n in range(20)]),
    StrangerLoad("wrong-forms", 10, lambda path: [_posted(path, b"username=guest&password=wrong", _FORM)] * 20),
    StrangerLoad("huge-basic", 50, lambda path: [asked("GET", path, _basic("a" * 40_000)), NEVER]),
    StrangerLoad("propfind", 4, lambda _: [asked("PROPFIND", "/dav/", f"Content-Length: {len(_PROPFIND)}"), _PROPFIND, NEVER]),
    StrangerLoad("expect", 100, lambda path: [asked("POST", path, _LENGTH, "Expect: 100-continue"), NEVER]),
    StrangerLoad("ranges", 20, lambda path: [asked("GET", path, "Range: bytes=" + ",".join(["0-"] * 1000)), NEVER]),
    StrangerLoad("many-peers", 400, lambda path: [asked("POST", path)[:-2], NEVER], peers=[f"127.0.1.{n}" for n in range(1, 201)]),
    StrangerLoad("http2", 50, lambda _: [_HTTP2 + b"\0\0\0\4\0\0\0\0\0" * 99, NEVER]),
    StrangerLoad("smuggled", 20, lambda path: [_posted(path, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n", _CHUNKED), NEVER]),
    StrangerLoad("negative", 20, lambda path: [asked("POST", path, "Content-Length: -1"), NEVER]),
    StrangerLoad("websocket", 20, lambda path: [asked("GET", path, "Upgrade: websocket", "Connection: Upgrade"), NEVER]),
    StrangerLoad("resets", 500, lambda path: [asked("POST", path)[:-2]], resets=True),
    StrangerLoad("bomb", 10, lambda path: [_posted(path, gzipped(b" ", 100 * MB), "Content-Encoding: gzip"), NEVER]),
    StrangerLoad("call-entities", 10, lambda path: [_posted(path, ENTITIES_BOMB.encode(), "Content-Type: text/xml"), NEVER]),
    StrangerLoad("garbage", 50, lambda _: [gzipped(b"<p>", MB) * 9, NEVER]),
)
# fmt: on
"""All of them."""


@contextmanager
def under(loads: Sequence[StrangerLoad], doors: Sequence[str]) -> Iterator[None]:
    """Load the ports of URLs while the block runs, which begins when all strangers are there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    visits = asyncio.run_coroutine_threadsafe(_arrive(loads, doors), loop).result()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_leave(visits), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _arrive(loads: Sequence[StrangerLoad], doors: Sequence[str]) -> set[asyncio.Task[None]]:
    """Let strangers knock at all doors, and wait until all have; return their visits."""
    visits = [
        (load, urlsplit(door), peer, asyncio.Event())
        for load in loads
        for door in doors
        for peer in islice(cycle(load.peers), load.times)
    ]
    tasks = {asyncio.create_task(_knock(*visit)) for visit in visits}
    await asyncio.wait([asyncio.create_task(each.wait()) for *_, each in visits], timeout=OPENING)
    return tasks


async def _leave(visits: set[asyncio.Task[None]]) -> None:
    """Let them all go home."""
    for each in visits:
        each.cancel()
    await asyncio.gather(*visits, return_exceptions=True)


async def _knock(load: StrangerLoad, door: SplitResult, peer: str, there: asyncio.Event) -> None:
    """Send what a stranger sends, and say when all is said or the first pause is made."""
    try:
        heard, said = await asyncio.open_connection(door.hostname, door.port, **_how(door, peer))
        listening = asyncio.ensure_future(_listen(heard) if load.reads else asyncio.sleep(0))
        try:
            await _send(load.sent(door.path), said, there)
        finally:
            listening.cancel()
            if load.resets:
                _reset(said)
            said.transport.abort()
    except OSError:  # refused, or turned away
        pass
    finally:
        there.set()


def _how(door: SplitResult, peer: str) -> dict[str, Any]:
    """Return how to connect: from an address of the stranger's own, if the port is on this machine."""
    how: dict[str, Any] = {}
    if door.scheme == "https":
        how["ssl"] = ssl._create_unverified_context()  # noqa: S323 - strangers believe any server
    if str(door.hostname).startswith("127."):
        how["local_addr"] = (peer, 0)
    return how


async def _send(pieces: Pieces, said: asyncio.StreamWriter, there: asyncio.Event) -> None:
    for piece in pieces:
        if isinstance(piece, bytes):
            said.write(piece)
            await said.drain()
        else:
            there.set()
            await asyncio.sleep(piece)


async def _listen(heard: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await heard.read(2**16):
            pass


def _reset(said: asyncio.StreamWriter) -> None:
    """Let the end of a connection be no orderly one."""
    link = said.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def main(urls: Sequence[str], names: str) -> None:
    """Load ports with the kinds of these names, until killed."""
    chosen = [load for load in LOADS if load.name in names.split(",")]
    with under(chosen, urls):
        print("all are there", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[2:], sys.argv[1])
