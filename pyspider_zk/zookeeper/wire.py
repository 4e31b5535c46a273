"""The TCP connection below kazoo, which other threads can close; and addresses of ZooKeeper."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from pyspider_zk.errors import Unavailable

_GREETING = struct.Struct(">iii")  # length, protocol and timeout in ms begin the server's answer
_RESET = struct.pack("ii", 1, 0)  # close without sending the rest: nobody waits for it

_RECORD = 16 * 1024  # bytes, the most of one record of TLS
_SHORTEST = 0.001  # seconds; 0 would mean not to wait at all, and to fail


class Wire:
    """Socket for kazoo that another thread may close.

    Args:
        link: the socket, with or without TLS.
        began: when connecting began, on the session's clock.
        patience: seconds that the server may take to answer.

    Attributes:
        granted: the session timeout in seconds that the server granted; None before its reply.
        closed: whether kazoo is done with it.
    """

    def __init__(self, link: Any, began: float, patience: float) -> None:
        self.began = began
        self.patience = patience
        self.granted: float | None = None
        self.closed = False
        self._link = link
        self._greeting = b""
        self._held = b""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        """Return the socket's own attribute."""
        return getattr(self._link, name)

    def recv(self, size: int) -> bytes:
        """Receive; the very first bytes are the reply to the request for a session."""
        data: bytes = self._held[:size] or self._link.recv(size)
        self._held = self._held[size:]
        if self.granted is None:
            self._greeting += data
            if len(self._greeting) >= _GREETING.size:
                self.granted = _GREETING.unpack_from(self._greeting)[2] / 1000
        return data

    def pending(self) -> int:
        """Return how many received bytes are unread."""
        return len(self._held)

    def holds_data(self) -> bool:
        """Return whether there is something to read where the socket is readable; never blocks.

        A TLS record without data makes a socket readable; kazoo would wait for data then.
        """
        if isinstance(self._link, ssl.SSLSocket) and not self._held:
            try:
                self._held = self._link.recv(_RECORD)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except OSError:
                return True  # the reader finds out
        return True

    def sever(self) -> None:
        """Shut the connection down; reads and writes then fail. Never blocks."""
        with self._lock, suppress(OSError):
            self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            socket.socket.shutdown(self._link, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it; not while it is severed, when its number might be another's already."""
        with self._lock:
            self.closed = True
            self._link.close()


Secure = Callable[[Any, str, float], Any]
"""Begins TLS on a socket that is connected to a host of that name, within that many seconds."""


def handler(connect: Callable[[Callable[[float], Any]], Wire], secure: Secure) -> Any:
    """Return kazoo's handler of threads and sockets, with our own way to connect.

    Args:
        connect: gets a function that connects within that many seconds at most; returns what it
            connected, or raises ``SessionExpiredError`` to make kazoo begin another session.
        secure: begins TLS, or returns the socket as it is.
    """
    made = SequentialThreadingHandler()
    plain = made.create_connection

    def create_connection(*args: Any, hostname: str, timeout: float, **options: Any) -> Wire:
        def link(within: float) -> Any:
            until = time.monotonic() + min(timeout, within)
            made_link = plain(*args, timeout=min(timeout, within), **options)
            return secure(made_link, hostname, max(until - time.monotonic(), _SHORTEST))

        return connect(link)

    made.create_connection, made.select = create_connection, _aware_of_tls(made.select)
    return made


def _aware_of_tls(select: Any) -> Any:
    """Return a `select` that reports sockets with data, not just readable sockets.

    One TLS record may hold several replies, which are then here while the socket is silent, or
    no reply at all.
    """

    def aware(readers: Any, writers: Any, errors: Any, timeout: float | None = None) -> Any:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            held = [each for each in readers if isinstance(each, Wire) and each.pending()]
            left = None if until is None else max(0.0, until - time.monotonic())
            found, *others = select(readers, writers, errors, 0 if held else left)
            ready = [each for each in found if not isinstance(each, Wire) or each.holds_data()]
            ready += [each for each in held if each not in ready]
            if ready or any(others) or not found:
                return ready, *others

    return aware


def local_address(hosts: str) -> str:
    """Return the address of this machine that reaches ZooKeeper.

    ``gethostbyname(hostname)`` often gives 127.0.1.1, which nobody else can reach. Connecting a
    datagram socket sends nothing; it only asks the routing table.

    Raises:
        Unavailable: the name is unknown or there is no route.
    """
    host, port = address_of(hosts.split(",")[0])
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Unavailable(f"there is no way to ZooKeeper at {hosts}: {error}") from error


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of one of ZooKeeper's addresses, whose port may be left out."""
    first = text.strip()
    host, colon, port = first.rpartition(":")
    if not colon or host.endswith(":") or not port.isdigit():
        return first.strip("[]"), 2181
    return host.strip("[]"), int(port)
