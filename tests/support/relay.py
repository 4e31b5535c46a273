"""A relay between clients and one server on loopback, whose wire can be cut.

While it is cut, bytes of open connections are kept back and new connections get no word, as with a
dead link. When it is mended, the old connections are gone, as after a router's restart.
"""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65536
_LOOK = 0.2  # seconds until a stop or a cut is noticed


class Relay:
    """Passes bytes on. Threads: one of its own; ``cut`` may be called from any.

    Args:
        port: the server's.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._selector = selectors.DefaultSelector()
        self._stopped = threading.Event()
        self._whole = threading.Event()
        self._whole.set()
        self._drop = threading.Event()
        self._mute = threading.Event()
        self._servers: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> "Relay":
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._whole.set()
        self._thread.join()
        self._hang_up()
        self._listener.close()
        self._selector.close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Pass nothing on while the block runs."""
        self._whole.clear()
        try:
            yield
        finally:
            self._drop.set()
            self._whole.set()

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """Pass on what clients say, and hang up on whoever is answered, while the block runs."""
        self._mute.set()
        try:
            yield
        finally:
            self._mute.clear()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            if not self._whole.is_set():
                self._whole.wait()
            if self._drop.is_set():
                self._drop.clear()
                self._hang_up()
            for key, _ in self._selector.select(_LOOK):
                if not self._whole.is_set():
                    break
                self._pass_on(key)

    def _pass_on(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            self._accept()
            return
        try:
            data = key.fileobj.recv(_CHUNK)
            if data and not (self._mute.is_set() and key.fileobj in self._servers):
                key.data.sendall(data)
                return
        except OSError:
            pass  # either side is gone: so is the other
        self._close(key.fileobj, key.data)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, 2.0)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._servers.add(server)
        self._selector.register(client, selectors.EVENT_READ, server)
        self._selector.register(server, selectors.EVENT_READ, client)

    def _hang_up(self) -> None:
        pairs = [key for key in self._selector.get_map().values() if key.data is not None]
        for key in pairs:
            self._close(key.fileobj, key.data)

    def _close(self, *ends: socket.socket) -> None:
        self._servers.difference_update(ends)
        for end in ends:
            with suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()
