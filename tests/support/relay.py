"""A relay between clients and one server on loopback, whose wire can be cut.

While it is cut, bytes of open connections are kept back and new connections get no word, as with a
dead link. When it is mended, the old connections are gone, as after a router's restart.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.crew import Cable


class Relay:
    """Passes bytes on. Threads: two for each connection; all methods may be called from any.

    Args:
        port: the server's.
    """

    def __init__(self, port: int) -> None:
        self._cable = _Muted(f"127.0.0.1:{port}")
        self.port = int(self._cable.address.rpartition(":")[2])

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self._cable.close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Pass nothing on while the block runs."""
        self._cable.cut()
        try:
            yield
        finally:
            self._cable.drop()
            self._cable.mend()

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """Pass on what clients say, and hang up on whoever is answered, while the block runs."""
        self._cable.mute.set()
        try:
            yield
        finally:
            self._cable.mute.clear()


class _Muted(Cable):
    """A cable on which answers can be lost."""

    def __init__(self, target: str) -> None:
        self.mute = threading.Event()
        super().__init__(target)

    def _pass_on(self, data: bytes, source: socket.socket, target: socket.socket) -> None:
        if self.mute.is_set() and source.getpeername() == self._target:
            source.shutdown(socket.SHUT_RDWR)  # both hear of it
            raise ConnectionResetError
        super()._pass_on(data, source, target)
