"""The TCP connection below kazoo: it can be severed, and it overhears what the server granted."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

_GREETING = struct.Struct(">iii")  # length, protocol and timeout in ms begin the server's answer
_RESET = struct.pack("ii", 1, 0)  # close without sending what is left: nobody waits for it


class Wire:
    """Socket for kazoo that another thread may sever.

    Args:
        link: the socket, with or without TLS.
        began: when connecting began, on the session's clock.
        patience: seconds that the server may take to answer.

    Attributes:
        granted: the session timeout in seconds that the server granted, once it said so.
        closed: whether kazoo is done with it.
    """

    def __init__(self, link: Any, began: float, patience: float) -> None:
        self.began = began
        self.patience = patience
        self.granted: float | None = None
        self.closed = False
        self._link = link
        self._greeting = b""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the socket's own."""
        return getattr(self._link, name)

    def recv(self, size: int) -> bytes:
        """Receive; the first bytes of all are the answer to the request for a session."""
        data: bytes = self._link.recv(size)
        if self.granted is None:
            self._greeting += data
            if len(self._greeting) >= _GREETING.size:
                self.granted = _GREETING.unpack_from(self._greeting)[2] / 1000
        return data

    def sever(self) -> None:
        """End the connection at both ends; whoever reads or writes it is told. Never blocks."""
        with self._lock, suppress(OSError):
            self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            socket.socket.shutdown(self._link, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it; not while it is severed, when its number might be another's already."""
        with self._lock:
            self.closed = True
            self._link.close()


def handler(connect: Callable[[Callable[[float], Any]], Wire]) -> Any:
    """Return kazoo's threads and sockets, the latter connected by somebody else.

    Args:
        connect: gets a function that connects within so many seconds at most; returns what it
            connected, or raises ``SessionExpiredError`` to make kazoo begin another session.
    """
    made = SequentialThreadingHandler()
    plain = made.create_connection

    def create_connection(*args: Any, timeout: float, **options: Any) -> Wire:
        return connect(lambda within: plain(*args, timeout=min(timeout, within), **options))

    made.create_connection = create_connection
    return made
