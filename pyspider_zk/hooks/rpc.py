"""The XML-RPC server of a member."""

import logging
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from xmlrpc.client import Fault
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from pyspider_zk.core.tasks import is_deeper

logger = logging.getLogger("pyspider_zk.rpc")

POLL = 0.1  # seconds until a stop is noticed
BODY_LIMIT = 16 * 2**20  # bytes of a call, once inflated too
LARGE = 2**20  # bytes; of larger calls only few are read and parsed at the same time
LARGE_AT_ONCE = 4
READ_LIMIT = 30.0  # seconds that a call may take to arrive
DEEPEST = 200  # levels of what is handed over

Functions = Mapping[str, Callable[..., Any]]

_TOO_LARGE = (413, "the call is larger than %d bytes")
_NO_LENGTH = (411, "a Content-Length is needed")


class _Handler(SimpleXMLRPCRequestHandler):
    server: "_Server"
    rpc_paths = ()  # any path is answered, as pyspider does
    timeout = 30.0  # seconds; a client that connects and says nothing must not keep a thread

    def setup(self) -> None:
        self.server.arrivals.began(self.request)
        super().setup()

    def finish(self) -> None:
        self.server.arrivals.ended(self.request)
        super().finish()

    def do_POST(self) -> None:  # noqa: N802 - the base's name
        """Answer a call, unless it is larger than memory should be spent on."""
        length = self.headers.get("content-length", "")
        if "transfer-encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(*_NO_LENGTH)
        elif len(length) > len(str(BODY_LIMIT)) or int(length) > BODY_LIMIT:
            self._refuse(_TOO_LARGE[0], _TOO_LARGE[1] % BODY_LIMIT)
        elif int(length) <= LARGE:
            super().do_POST()
        elif self.server.large.acquire(timeout=READ_LIMIT):
            try:
                super().do_POST()
            finally:
                self.server.large.release()
        else:
            self._refuse(503, "too many large calls at once")

    def decode_request_content(self, data: bytes) -> bytes | None:
        """Return the body of a call, None if it was refused."""
        self.server.arrivals.ended(self.request)
        if self.headers.get("content-encoding", "identity").lower() != "gzip":
            return super().decode_request_content(data)
        inflating = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            body = inflating.decompress(data, BODY_LIMIT)
        except zlib.error:
            self._refuse(400, "the body is no gzip")
            return None
        if inflating.unconsumed_tail:
            self._refuse(_TOO_LARGE[0], _TOO_LARGE[1] % BODY_LIMIT)
            return None
        if not inflating.eof:
            self._refuse(400, "the body is no gzip")
            return None
        return body

    def _refuse(self, status: int, why: str) -> None:
        logger.warning("refused a call from %s: %s", self.client_address, why)
        self.close_connection = True
        self.send_response(status, why)
        self.send_header("Content-length", "0")
        self.end_headers()


class _Arrivals:
    """Calls that are being received, and since when. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}

    def began(self, connection: socket.socket) -> None:
        with self._lock:
            self._since[connection] = time.monotonic()

    def ended(self, connection: socket.socket) -> None:
        with self._lock:
            self._since.pop(connection, None)

    def hang_up(self) -> None:
        """End those that take too long: bytes that come one by one reset every other time-out."""
        late = time.monotonic() - READ_LIMIT
        with self._lock:
            overdue = [connection for connection, since in self._since.items() if since < late]
            for connection in overdue:
                del self._since[connection]
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Server(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    """One thread per call: members call each other, so a single one could wait for itself."""

    daemon_threads = True
    allow_reuse_address = True
    timeout = POLL

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.arrivals = _Arrivals()
        self.large = threading.BoundedSemaphore(LARGE_AT_ONCE)
        super().__init__(*args, **kwargs)

    def _dispatch(self, method: str, params: Any) -> Any:
        if is_deeper(list(params), DEEPEST):
            raise Fault(400, f"{method:.80}: what is handed over is nested deeper than {DEEPEST}")
        return super()._dispatch(method, params)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base's signature
        """Log what socketserver prints; mostly a client that did not wait for its answer."""
        logger.info("a call from %s was not answered", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class RpcServer:
    """Serves functions until it is stopped.

    Threads: ``serve`` blocks the thread that it is called on; ``port`` and ``stop`` may be
    called from any other, those that answer calls included.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._port: Future[int] = Future()
        self._stopped = threading.Event()
        self._closed = threading.Event()

    def serve(self, host: str, port: int) -> None:
        """Bind (port 0: any free one) and answer until ``stop``.

        Raises:
            OSError: the address cannot be bound; ``port`` raises it too.
        """
        server_class = _Server6 if ":" in host else _Server
        try:
            server = server_class((host, port), _Handler, logRequests=False, allow_none=True)
        except OSError as error:
            self._port.set_exception(error)
            raise
        try:
            with server:
                server.register_introspection_functions()
                for name, function in self._functions.items():
                    server.register_function(function, name)
                self._port.set_result(int(server.server_address[1]))
                while not self._stopped.is_set():
                    server.handle_request()
                    server.arrivals.hang_up()
        finally:
            self._closed.set()

    def port(self, patience: float) -> int:
        """Return the bound port; wait up to ``patience`` seconds for ``serve``.

        Raises:
            OSError: ``serve`` could not bind.
            TimeoutError: ``serve`` was not called.
        """
        return self._port.result(patience)

    def stop(self) -> None:
        """End ``serve`` and free the port, now or as soon as it is called; may be repeated."""
        self._stopped.set()
        if self._port.done() and self._port.exception() is None:
            self._closed.wait()
