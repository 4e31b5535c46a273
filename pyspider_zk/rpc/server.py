"""XML-RPC server of a process: calls are admitted by their heads, before their bodies are read."""

import asyncio
import errno
import logging
import socket
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from http import HTTPStatus
from inspect import signature
from typing import Any
from xmlrpc.client import Fault, dumps, getparser, gzip_encode
from xmlrpc.server import SimpleXMLRPCDispatcher

from pyspider.libs.http_server import BoundedServer, Limits, Workers, bind, refused
from tornado.httputil import HTTPServerRequest
from werkzeug.wrappers import Response

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import check_port
from pyspider_zk.queues.tasks import is_deeper
from pyspider_zk.rpc.admission import Admitted, CallAdmission, CallRefused, Head, calling
from pyspider_zk.rpc.proof import ANSWER_HEADER, digest

logger = logging.getLogger(__name__)

BODY_LIMIT = 16 * 2**20  # bytes of a call, also when decompressed
DEEPEST = 200  # levels of nesting of the arguments
PACK_FROM = 1400  # bytes of a response
CALLS = 64  # that are carried out at the same time
LOCAL_CALLS = 32  # beside those: that ask no other member
LOCAL = "local_"  # how the names of those functions begin
STOP_LIMIT = 5.0  # seconds for the calls in hand
HOLD_UP = 1.0  # seconds before a wrong secret is answered
HELD_UP_AT_ONCE = 16

Functions = Mapping[str, Callable[..., Any]]
Answer = Callable[[HTTPServerRequest], Awaitable[Response]]
LoadTls = Callable[[], ssl.SSLContext | None]


class HttpAdmission:
    """Admission to a port. Threads: that of its loop."""

    def __init__(self, entry: CallAdmission) -> None:
        self._entry = entry
        self._held_up = asyncio.Semaphore(HELD_UP_AT_ONCE)

    async def admit(self, request: HTTPServerRequest) -> Admitted:
        """Authenticate a call.

        Raises:
            Refused: it is not for us, or not allowed.
        """
        host, port = request.connection.stream.socket.getsockname()[:2]  # type: ignore[union-attr]
        try:
            return self._entry.admit(Head(request.method or "", request.headers.get, (host, port)))
        except CallRefused as error:
            if error.status == HTTPStatus.UNAUTHORIZED and "Authorization" in request.headers:
                await self._hold_up()
            raise refused(error.status, str(error), error.headers, error.body) from None

    async def _hold_up(self) -> None:
        """Delay the response to a wrong secret: together they get a few responses per second.

        A correct secret is answered at once, also from the same address: otherwise a stranger on
        loopback could lock out everybody.
        """
        async with self._held_up:
            await asyncio.sleep(HOLD_UP)


def check_body(admitted: Admitted, body: bytes) -> None:
    """Raise ``CallRefused`` unless a call's body is the one that its proof is of."""
    call = admitted.call
    if call is not None and not compare_digest(digest(body), call.digest):
        raise CallRefused(HTTPStatus.BAD_REQUEST, "the body is not the one that was proven")


class _Calls:
    """Admits calls by their heads, and carries them out in few threads.

    What asks other members has other threads than what they ask for: otherwise all threads of two
    members could wait for each other.
    """

    def __init__(self, functions: Functions, entry: CallAdmission) -> None:
        self._entry = entry
        self._admission = HttpAdmission(entry)
        self._asking, self._local = Workers(CALLS), Workers(LOCAL_CALLS)
        self._dispatcher = SimpleXMLRPCDispatcher(allow_none=True)
        self._dispatcher.register_introspection_functions()
        for name, function in functions.items():
            self._dispatcher.register_function(function, name)

    def end(self) -> None:
        """Let idle threads end."""
        self._asking.end()
        self._local.end()

    async def admit(self, request: HTTPServerRequest, length: int | None) -> tuple[int, Answer]:
        """Return how many bytes a call may have, and what answers it.

        Raises:
            Refused: it is not for us, or not allowed.
        """
        admitted = await self._admission.admit(request)
        if length is None or "Content-Length" not in request.headers:
            raise refused(411, "a Content-Length is needed")
        return BODY_LIMIT, partial(self._answered, admitted)

    async def _answered(self, admitted: Admitted, request: HTTPServerRequest) -> Response:
        run = asyncio.get_running_loop().run_in_executor
        try:
            method, outcome = await run(self._local, self._read, admitted, request)
        except CallRefused as error:
            raise refused(error.status, str(error)) from None
        workers = self._local if method.startswith(LOCAL) else self._asking
        packs = "gzip" in request.headers.get("Accept-Encoding", "")
        return await run(workers, self._answer, admitted, outcome, packs)

    def _read(
        self, admitted: Admitted, request: HTTPServerRequest
    ) -> tuple[str, Callable[[], bytes]]:
        """Return the method of a call, and what carries it out; refuse it as ``_body`` does."""
        body = _body(admitted, request)
        try:
            given, method = _parsed(body)
        except Exception as error:  # the parser raises anything
            fault = Fault(400, f"this is no call: {type(error).__name__}: {error!s:.200}")
            return LOCAL, partial(_xml, fault)
        return method or "", partial(self._outcome, method, given)

    def _answer(self, admitted: Admitted, outcome: Callable[[], bytes], packs: bool) -> Response:
        with calling(admitted.caller):
            body = outcome()
        headers = {}
        if packs and len(body) > PACK_FROM:
            body = gzip_encode(body)
            headers["Content-Encoding"] = "gzip"
        proof = self._entry.answer(admitted, body)
        if proof is not None:
            headers[ANSWER_HEADER] = proof
        return Response(body, headers=headers, content_type="text/xml")

    def _outcome(self, method: str | None, given: Any) -> bytes:
        """Return the body of the response to a call.

        The dispatcher would return the same code for an invalid call and for an error in here.
        """
        try:
            return _xml((self._dispatch(method, given),))
        except Fault as fault:
            return _xml(fault)
        except Exception as error:
            logger.error("%.80r failed", method, exc_info=error)
            return _xml(Fault(1, f"{type(error)}:{error}"))

    def _dispatch(self, method: str | None, params: Any) -> Any:
        function = self._dispatcher.funcs.get(method or "")
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


def _body(admitted: Admitted, request: HTTPServerRequest) -> bytes:
    """Return the decompressed body of a call.

    Raises:
        CallRefused: it is not as announced.
    """
    check_body(admitted, request.body)
    packed = request.headers.get("Content-Encoding", "identity").lower()
    if packed not in ("identity", "gzip"):
        raise CallRefused(501, "the body can be packed by gzip only")
    return _inflated(request.body) if packed == "gzip" else request.body


def _parsed(body: bytes) -> tuple[Any, str | None]:
    """Return the arguments and the method of a call, as ``loads`` does.

    Raises:
        Exception: whatever the parser raises; it declares entities, which no call needs, and which
            make gigabytes of a few bytes.
    """
    parser, target = getparser()
    parser._parser.EntityDeclHandler = _refuse_entity  # type: ignore[attr-defined] # as defusedxml
    parser.feed(body)
    parser.close()
    return target.close(), target.getmethodname()


def _refuse_entity(name: str, *_: object) -> None:
    raise ValueError(f"it declares an entity, {name:.80}")


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        body = inflating.decompress(data, BODY_LIMIT)
    except zlib.error:
        raise CallRefused(400, "the body is no gzip") from None
    if inflating.unconsumed_tail:
        raise CallRefused(413, f"the call is larger than {BODY_LIMIT} bytes")
    if not inflating.eof:
        raise CallRefused(400, "the body is no gzip")
    return body


def _xml(answer: Fault | tuple[Any]) -> bytes:
    """Return the body of a response; some quote the caller's text."""
    text = dumps(answer, methodresponse=True, allow_none=True)
    return text.encode("utf-8", "xmlcharrefreplace")


class RpcServer:
    """XML-RPC server of functions.

    Threads: ``serve`` blocks the thread that it is called on; ``bound`` and ``stop`` may be
    called from any other, those that answer calls included.

    Args:
        load_tls: returns the TLS context; None, or returning None: there is no TLS.
        limits: what callers may hold of the port.
    """

    def __init__(
        self,
        functions: Functions,
        entry: CallAdmission | None = None,
        load_tls: LoadTls | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._functions = functions
        self._entry = entry or CallAdmission()
        self._load_tls = load_tls or (lambda: None)
        self._limits = limits or Limits()
        self._bound: Future[tuple[str, int]] = Future()
        self._stopped: Future[None] = Future()
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
            tls = self._load_tls()
            sockets = self._bind(host, port, or_any)
        except (OSError, ConfigError) as error:
            self._bound.set_exception(error)
            raise
        self._bound.set_result((host, int(sockets[0].getsockname()[1])))
        try:
            asyncio.run(self._serve(sockets, tls))
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

    def stop(self) -> None:
        """End ``serve`` and free the port, now or as soon as it is called; may be repeated."""
        with suppress(InvalidStateError):
            self._stopped.set_result(None)
        if self._bound.done() and self._bound.exception() is None:
            self._closed.wait()

    def _bind(self, host: str, port: int, or_any: bool) -> list[socket.socket]:
        try:
            return list(bind(host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not or_any:
                raise
            sockets = list(bind(host, 0))
            free = sockets[0].getsockname()[1]
            logger.warning("XML-RPC: port %d is taken, it is served at %d", port, free)
            return sockets

    async def _serve(self, sockets: list[socket.socket], tls: ssl.SSLContext | None) -> None:
        calls = _Calls(self._functions, self._entry)
        server = BoundedServer(calls.admit, self._limits, tls)
        try:
            await server.run(sockets, self._stopped, self._closed.set, STOP_LIMIT)
        finally:
            calls.end()


def limits_of(settings: Settings) -> Limits:
    """Return what clients may hold of a port of a process with these settings."""
    return Limits(settings.port_connections, body=settings.port_body_seconds)
