"""The XML-RPC server of a member."""

import errno
import logging
import socket
import socketserver
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from hmac import compare_digest
from http import HTTPStatus
from inspect import signature
from typing import Any
from xmlrpc.client import Fault, dumps, gzip_encode, loads
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import check_port
from pyspider_zk.queues.tasks import is_deeper
from pyspider_zk.rpc.admission import Admitted, CallAdmission, CallRefused, Head
from pyspider_zk.rpc.caller import calling
from pyspider_zk.rpc.peers import READ_LIMIT, Peers, ReceivingCalls
from pyspider_zk.rpc.proof import ANSWER_HEADER, digest
from pyspider_zk.rpc.tls import NoTls, accepted

logger = logging.getLogger(__name__)

POLL = 0.25  # seconds until a stop is noticed
BODY_LIMIT = 16 * 2**20  # bytes of a call, also when decompressed
LARGE = 2**20  # bytes; only a few larger calls are read and parsed at the same time
LARGE_AT_ONCE = 4
DEEPEST = 200  # levels of nesting of the arguments
PACK_FROM = 1400  # bytes of a response

Functions = Mapping[str, Callable[..., Any]]
LoadTls = Callable[[], ssl.SSLContext | None]


class _CallHandler(SimpleXMLRPCRequestHandler):
    server: "_Server"
    rpc_paths = ()  # every path is served, as pyspider does
    _admitted: Admitted
    _is_read = False  # the body
    timeout = 30.0  # seconds; a silent client must not keep a thread

    def setup(self) -> None:
        self.server.arrivals.began(self.request)
        super().setup()

    def finish(self) -> None:
        self.server.arrivals.ended(self.request)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log a request that could not even be parsed; the base class prints all of it."""
        self.server.peers.note(self.client_address[0], f"{format % args:.100}")

    def parse_request(self) -> bool:
        """Read the head of a request; refuse those that need not be read further."""
        if not super().parse_request():
            return False
        host, port = self.request.getsockname()[:2]
        try:
            self._check_tls()
            self._admitted = self.server.entry.admit(
                Head(self.command, self.headers.get, (host, port))
            )
        except CallRefused as refused:
            self._refuse(refused)
            return False
        return True

    def _check_tls(self) -> None:
        if self.server.tls is not None and not isinstance(self.request, ssl.SSLSocket):
            raise CallRefused(400, "this port speaks TLS only: call it by https")

    def do_POST(self) -> None:  # noqa: N802 - the base's name
        """Answer a call, unless it needs too much memory."""
        try:
            length = self._length()
            with self._room(length):
                self._answer(self._body(length))
        except CallRefused as refused:
            self._refuse(refused)

    def _length(self) -> int:
        """Return how many bytes the body has.

        Raises:
            CallRefused: unknown, or too many.
        """
        length = self.headers.get("content-length", "")
        if "transfer-encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise CallRefused(411, "a Content-Length is needed")
        if len(length) > len(str(BODY_LIMIT)) or int(length) > BODY_LIMIT:
            raise _too_large()
        return int(length)

    @contextmanager
    def _room(self, length: int) -> Iterator[None]:
        """Reserve a place among the few large calls while the block runs.

        Raises:
            CallRefused: there is none.
        """
        if length <= LARGE:
            yield
            return
        if not self.server.large.acquire(timeout=READ_LIMIT):
            raise CallRefused(503, "too many large calls at once")
        try:
            yield
        finally:
            self.server.large.release()

    def _body(self, length: int) -> bytes:
        """Return the decompressed body of a call.

        Raises:
            CallRefused: it is not as announced.
        """
        data = self.rfile.read(length)
        self._is_read = True
        self.server.arrivals.ended(self.request)
        call = self._admitted.call
        if call is not None and not compare_digest(digest(data), call.digest):
            raise CallRefused(400, "the body is not the one that was proven")
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed not in ("identity", "gzip"):
            raise CallRefused(501, "the body can be packed by gzip only")
        return _inflated(data) if packed == "gzip" else data

    def _answer(self, body: bytes) -> None:
        """Carry out a call and send the result."""
        with calling(self._admitted.caller):
            answer = self.server.answer(body)
        self.send_response(200)
        self.send_header("Content-type", "text/xml")
        if len(answer) > PACK_FROM and self.accept_encodings().get("gzip", 0):
            answer = gzip_encode(answer)
            self.send_header("Content-Encoding", "gzip")
        proof = self.server.entry.answer(self._admitted, answer)
        if proof is not None:
            self.send_header(ANSWER_HEADER, proof)
        self._send(answer)

    def _refuse(self, refused: CallRefused) -> None:
        self.server.peers.note(self.client_address[0], str(refused))
        self.close_connection = True
        if refused.status == HTTPStatus.UNAUTHORIZED and "authorization" in self.headers:
            self.server.peers.hold_up()
        self.send_response(refused.status, str(refused))
        for name, value in refused.headers.items():
            self.send_header(name, value)
        self._send(refused.body)
        self._drain()

    def _send(self, body: bytes) -> None:
        self.send_header("Content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drain(self) -> None:
        """Read and drop a small body: otherwise the sender might not see our response."""
        length = self.headers.get("content-length", "")
        is_small = length.isascii() and length.isdigit() and len(length) < len(str(LARGE))
        self.wfile.flush()
        if is_small and not self._is_read:
            self.rfile.read(int(length))


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        body = inflating.decompress(data, BODY_LIMIT)
    except zlib.error:
        raise CallRefused(400, "the body is no gzip") from None
    if inflating.unconsumed_tail:
        raise _too_large()
    if not inflating.eof:
        raise CallRefused(400, "the body is no gzip")
    return body


def _too_large() -> CallRefused:
    return CallRefused(413, f"the call is larger than {BODY_LIMIT} bytes")


class _Server(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    """Server with a thread per call: members call each other, so one thread could deadlock."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # with the base's 5, many at once would wait a second
    timeout = POLL

    def __init__(
        self,
        *args: Any,
        entry: CallAdmission,
        stopped: threading.Event,
        tls: ssl.SSLContext | None,
        **kwargs: Any,
    ) -> None:
        self.entry = entry
        self.tls = tls
        self.peers = Peers(stopped)
        self.arrivals = ReceivingCalls()
        self.large = threading.BoundedSemaphore(LARGE_AT_ONCE)
        super().__init__(*args, **kwargs)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a caller in a thread of its own, so a stalled TLS handshake blocks no others."""
        try:
            link = accepted(request, self.tls, READ_LIMIT)
        except NoTls as error:
            self.peers.note(client_address[0], str(error))
            return
        try:
            super().finish_request(link, client_address)
        finally:
            self.shutdown_request(link)

    def answer(self, data: bytes) -> bytes:
        """Answer a call.

        The base would return the same code for an invalid call and for an error in here.
        """
        try:
            given, method = loads(data)
        except Exception as error:  # the parser raises anything
            return _xml(Fault(400, f"this is no call: {type(error).__name__}: {error!s:.200}"))
        try:
            return _xml((self._dispatch(method, given),))
        except Fault as fault:
            return _xml(fault)
        except Exception as error:
            logger.error("%.80r failed", method, exc_info=error)
            return _xml(Fault(1, f"{type(error)}:{error}"))

    def _dispatch(self, method: str | None, params: Any) -> Any:
        function = self.funcs.get(method or "")
        if method is None or function is None:
            raise Fault(400, f"method {method!r:.80} is not supported")
        if is_deeper(list(params), DEEPEST):
            raise Fault(400, f"{method}: what is handed over is nested deeper than {DEEPEST}")
        if method.startswith("system.") and not all(isinstance(each, str) for each in params):
            raise Fault(400, f"{method}: a method's name is text")
        try:
            signature(function).bind(*params)
        except TypeError as error:
            raise Fault(400, f"{method}: {error}") from None
        return function(*params)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base's signature
        """Log what socketserver prints; mostly clients that did not wait for the response."""
        logger.info("a call from %s was not answered", client_address, exc_info=True)


def _xml(answer: Fault | tuple[Any]) -> bytes:
    """Return the body of a response; some quote the caller's text."""
    text = dumps(answer, methodresponse=True, allow_none=True)
    return text.encode("utf-8", "xmlcharrefreplace")


class _Server6(_Server):
    address_family = socket.AF_INET6


class RpcServer:
    """XML-RPC server of functions.

    Threads: ``serve`` blocks the thread that it is called on; ``port`` and ``stop`` may be
    called from any other, those that answer calls included.

    Args:
        functions: by name.
        entry: decides who may call them.
        load_tls: returns the TLS context; None, or returning None: there is no TLS.
    """

    def __init__(
        self,
        functions: Functions,
        entry: CallAdmission | None = None,
        load_tls: LoadTls | None = None,
    ) -> None:
        self._functions = functions
        self._entry = entry or CallAdmission()
        self._load_tls = load_tls or (lambda: None)
        self._bound: Future[tuple[str, int]] = Future()
        self._stopped = threading.Event()
        self._closed = threading.Event()

    def serve(self, host: str, port: int, *, or_any: bool = False) -> None:
        """Bind (port 0: any free one) and answer until ``stop``.

        Args:
            or_any: take any free port if that one is taken.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: it may not be, there is no such port, or TLS is not available as
                configured. ``bound`` raises both, too.
        """
        try:
            check_port("xmlrpc_port", port)
            self._entry.listen(host)
            server = self._server(host, port, or_any)
        except (OSError, ConfigError) as error:
            self._bound.set_exception(error)
            raise
        try:
            with server:
                server.register_introspection_functions()
                for name, function in self._functions.items():
                    server.register_function(function, name)
                self._bound.set_result((host, int(server.server_address[1])))
                while not self._stopped.is_set():
                    server.handle_request()
                    server.arrivals.disconnect()
        finally:
            self._closed.set()

    def bound(self, patience: float) -> tuple[str, int]:
        """Return host and port; wait up to ``patience`` seconds for ``serve``.

        Raises:
            OSError: ``serve`` could not bind.
            ConfigError: it may not, or TLS is not available.
            TimeoutError: ``serve`` was not called.
        """
        return self._bound.result(patience)

    def port(self, patience: float) -> int:
        """Return the port; raises as ``bound``."""
        return self.bound(patience)[1]

    def stop(self) -> None:
        """End ``serve`` and free the port, now or as soon as it is called; may be repeated."""
        self._stopped.set()
        if self._bound.done() and self._bound.exception() is None:
            self._closed.wait()

    def _server(self, host: str, port: int, or_any: bool) -> _Server:
        try:
            return self._bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not or_any:
                raise
            server = self._bind(host, 0)
            free = server.server_address[1]
            logger.warning("XML-RPC: port %d is taken, it is served at %d", port, free)
            return server

    def _bind(self, host: str, port: int) -> _Server:
        server_class = _Server6 if ":" in host else _Server
        return server_class(
            (host, port),
            _CallHandler,
            logRequests=False,
            allow_none=True,
            entry=self._entry,
            stopped=self._stopped,
            tls=self._load_tls(),
        )
