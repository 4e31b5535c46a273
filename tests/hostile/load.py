"""Strangers' load: what they send to a port without a login, and how many of them."""

import asyncio
import socket
import struct
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice

from tests.hostile.besieged import Door
from tests.hostile.kinds import ENTITIES_BOMB
from tests.hostile.parts import MB, NEVER, Pieces, chunk, drip, forever, gzipped, then

STRANGERS = ("127.0.0.66",)
"""Whoever may come in has another address."""

OPENING = 20.0  # seconds until all have sent something, or are turned away
BODY = 16 * MB


@dataclass(frozen=True)
class Load:
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
    Load("silent", 300, lambda _: [NEVER]),
    Load("half-heads", 300, lambda path: [asked("POST", path)[:-2], NEVER]),
    Load("half-bodies", 70, lambda path: [asked("POST", path, _LENGTH), b"a" * (BODY - 1), NEVER]),
    Load("no-bodies", 100, lambda path: [asked("POST", path, _LENGTH), NEVER]),
    Load("drip-heads", 100, lambda path: then([asked("GET", path)[:-4]], drip(b"\r\nX: 1"))),
    Load("drip-bodies", 100, lambda path: then([asked("POST", path, _LENGTH)], drip(b"a"))),
    Load("pipelined", 10, lambda path: [asked("GET", path) * 2000, NEVER]),
    Load("unread", 20, lambda path: [asked("GET", path) * 2000, NEVER], reads=False),
    Load("huge-header", 10, lambda path: [asked("GET", path, "X: " + "a" * 10 * MB), NEVER]),
    Load("endless-head", 10, lambda path: then([asked("GET", path)[:-4]], forever(b"\r\nX: 1" * 999, 0.05))),
    Load("huge-path", 20, lambda path: [asked("GET", path + "a" * 60_000), NEVER]),
    Load("endless-chunks", 10, lambda path: then([asked("POST", path, _CHUNKED)], forever(chunk(b"a" * 9999), 0.01))),
    Load("endless-size", 20, lambda path: then([asked("POST", path, _CHUNKED)], forever(b"0" * 999, 0.05))),
    Load("hellos", 100, lambda _: [_HELLO, NEVER]),
    Load("broken-tls", 50, lambda _: [_HELLO + b"\xff" * 600, NEVER]),
    Load("wrong-logins", 10, lambda path: [asked("GET", path.replace("login/", ""), _basic(f"guest{n}:wrong")) for n in range(20)]),
    Load("wrong-forms", 10, lambda path: [_posted(path, b"username=guest&password=wrong", _FORM)] * 20),
    Load("huge-basic", 50, lambda path: [asked("GET", path, _basic("a" * 40_000)), NEVER]),
    Load("propfind", 4, lambda _: [asked("PROPFIND", "/dav/", f"Content-Length: {len(_PROPFIND)}"), _PROPFIND, NEVER]),
    Load("expect", 100, lambda path: [asked("POST", path, _LENGTH, "Expect: 100-continue"), NEVER]),
    Load("ranges", 20, lambda path: [asked("GET", path, "Range: bytes=" + ",".join(["0-"] * 1000)), NEVER]),
    Load("many-peers", 400, lambda path: [asked("POST", path)[:-2], NEVER], peers=[f"127.0.1.{n}" for n in range(1, 201)]),
    Load("http2", 50, lambda _: [_HTTP2 + b"\0\0\0\4\0\0\0\0\0" * 99, NEVER]),
    Load("smuggled", 20, lambda path: [_posted(path, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n", _CHUNKED), NEVER]),
    Load("negative", 20, lambda path: [asked("POST", path, "Content-Length: -1"), NEVER]),
    Load("websocket", 20, lambda path: [asked("GET", path, "Upgrade: websocket", "Connection: Upgrade"), NEVER]),
    Load("resets", 500, lambda path: [asked("POST", path)[:-2]], resets=True),
    Load("bomb", 10, lambda path: [_posted(path, gzipped(b" ", 100 * MB), "Content-Encoding: gzip"), NEVER]),
    Load("entities", 10, lambda path: [_posted(path, ENTITIES_BOMB.encode(), "Content-Type: text/xml"), NEVER]),
    Load("garbage", 50, lambda _: [gzipped(b"<p>", MB) * 9, NEVER]),
)
# fmt: on
"""All of them."""


@contextmanager
def under(loads: Sequence[Load], doors: Sequence[Door]) -> Iterator[None]:
    """Load ports while the block runs, which begins when all strangers are there."""
    crowd = _Crowd(loads, doors)
    thread = threading.Thread(target=lambda: asyncio.run(crowd.visit()))
    thread.start()
    crowd.arrived.wait()
    try:
        yield
    finally:
        crowd.leave()
        thread.join()


class _Crowd:
    """Strangers on an event loop. Threads: ``visit`` is one; the rest is for whoever waits."""

    def __init__(self, loads: Sequence[Load], doors: Sequence[Door]) -> None:
        self._loads, self._doors = loads, doors
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self.arrived = threading.Event()

    def leave(self) -> None:
        """Let all go home."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ended.set)

    async def visit(self) -> None:
        """Knock at all doors, and stay until the end."""
        self._loop = asyncio.get_running_loop()
        there: list[asyncio.Event] = []
        visits = []
        for load in self._loads:
            for door in self._doors:
                for peer in islice(cycle(load.peers), load.times):
                    there.append(asyncio.Event())
                    visits.append(asyncio.create_task(_knock(load, door, peer, there[-1])))
        await asyncio.wait([asyncio.create_task(each.wait()) for each in there], timeout=OPENING)
        self.arrived.set()
        await self._ended.wait()
        for visit in visits:
            visit.cancel()
        await asyncio.wait(visits)


async def _knock(load: Load, door: Door, peer: str, there: asyncio.Event) -> None:
    """Send to a port what a stranger sends, and say when all is said, or the first pause is made."""
    reading = None
    try:
        heard, said = await asyncio.open_connection(door.host, door.port, local_addr=(peer, 0))
        try:
            if load.reads:
                reading = asyncio.create_task(_listen(heard))
            await _send(load.sent(door.path), said, there)
        finally:
            if load.resets:
                _reset(said)
            said.transport.abort()
    except OSError:  # refused, or turned away
        pass
    finally:
        there.set()
        if reading is not None:
            reading.cancel()


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
