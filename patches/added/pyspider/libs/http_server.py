"""An HTTP server for ports that strangers reach: what they may hold of it is bounded.

Added by pyspider-zk; the web UI, XML-RPC and metrics are served by it. When the head of a request
has come, and nothing else, a coroutine `admit(request, length)` is asked; `length` is None for a
body in chunks. It returns how many bytes the body may have, and a coroutine `answer(request)` for
when that has come, which returns a response of Werkzeug's. Both get Tornado's request, and may
raise `Refused`. A response whose body is an asynchronous generator is sent part by part: one that
fails is cut off, one whose client does not read is closed, and a stop does not wait for its end.
"""

import asyncio
import concurrent.futures
import contextlib
import errno
import logging
import queue
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import AsyncGenerator
from typing import NamedTuple

from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    ResponseStartLine,
)
from tornado.iostream import IOStream, SSLIOStream, StreamClosedError
from tornado.netutil import add_accept_handler, ssl_wrap_socket
from werkzeug.wrappers import Response

SMALL = 16 * 2**10
"""Bytes of a body that anybody may send."""

DROPPED = 10**6
"""Bytes of a refused body that are read nevertheless: otherwise its sender might see no answer."""

LARGE = 2**20
LARGE_AT_ONCE = 4
"""Of bodies with more bytes than that, only so many are received at the same time."""

FLUSH_SECONDS = 5.0
"""That clients have at the end to receive what was answered."""

NOTE_SECONDS = 600.0
NOTED_AT_MOST = 1000

_NO_TLS = "they speak TLS, and this port does not; members do with xmlrpc_tls_certificate"
_HANDSHAKE = b"\x16"  # the first byte of TLS, never of HTTP

logger = logging.getLogger(__name__)


class Limits(NamedTuple):
    """What clients may hold of a port.

    A connection beyond the limit closes the one that has waited longest for a whole request;
    if all are being answered it is closed itself.

    Attributes:
        connections: open at the same time, and requests that are being answered.
        of_peer: of these from one address; half of them if None.
        head: seconds in which a TLS handshake and the head of a request must have come, and the
            next one on the same connection.
        body: seconds in which the rest must have come, and in which each 16 KB must be read of an
            answer that is sent in parts.
        head_bytes: of the head.
        keep_alive: another request may come on the same connection.
    """

    connections: int = 512
    of_peer: int | None = None
    head: float = 30.0
    body: float = 60.0
    head_bytes: int = 32 * 2**10
    keep_alive: bool = True


class Refused(Exception):
    """An answer to what is not let in."""

    def __init__(self, response, why):
        super().__init__(why)
        self.response = response


def refused(status, why, headers=None, body=b""):
    """Return a refusal with its reason in the first line."""
    return Refused(Response(body, f"{int(status)} {why}", headers), why)


class Peers:
    """Clients that were refused: told of once per reason and interval. Threads: any."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._lock = threading.Lock()
        self._told = {}  # when, by address and reason; the oldest first

    def note(self, peer, why):
        """Log that a request was refused; nothing while too many were within the interval."""
        with self._lock:
            now = self._clock()
            for old in [key for key, at in self._told.items() if at + NOTE_SECONDS <= now]:
                del self._told[old]
            if (peer, why) in self._told or len(self._told) >= NOTED_AT_MOST:
                return
            self._told[peer, why] = now
        logger.warning("requests from %s are refused: %s (said once in 10 minutes)", peer, why)


class BoundedServer(HTTPServer):
    """Serves on sockets while `run()` lasts. Threads: that of the loop.

    Args:
        admit: see the module.
        limits: what clients may hold.
        tls: with our certificate; None: without TLS. Either way the other protocol is refused.
        peers: told whom it refused.
    """

    def initialize(self, admit, limits, tls=None, peers=None):
        """Take the arguments; Tornado's servers have no other constructor."""
        super().initialize(
            self,
            no_keep_alive=not limits.keep_alive,
            idle_connection_timeout=limits.head,
            body_timeout=limits.body,
            max_header_size=limits.head_bytes,
            max_body_size=SMALL,
            chunk_size=SMALL,
        )
        self.admit, self.peers = admit, peers or Peers()
        self.tasks = {}  # address by what answers it, which may outlive its connection
        self.limits, self._tls = limits, tls
        self._of_peer = limits.of_peer or max(1, limits.connections // 2)
        self._waiting = {}  # address and how to close it, by connection; the oldest first
        self._busy = {}
        self._flushing = {}

    async def run(self, sockets, stopped, closed=lambda: None, patience=None):
        """Serve until a future of `concurrent.futures` is done; what is in hand is answered.

        Args:
            closed: called when the port is free.
            patience: seconds for the requests in hand; None: as long as they take.
        """
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)
        removing = [add_accept_handler(each, self._accept) for each in sockets]
        try:
            with _logged_otherwise(self.peers):
                await asyncio.wrap_future(stopped)
        finally:
            for remove, each in zip(removing, sockets, strict=True):
                remove()
                each.close()
            closed()
            await self._settle(patience)

    async def _settle(self, patience):
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=patience)
        if self._flushing:
            await asyncio.wait(self._flushing.values(), timeout=FLUSH_SECONDS)
        for _, close in [*self._waiting.values(), *self._busy.values()]:
            close()
        await asyncio.sleep(0)

    def _accept(self, link, address):
        if not self._has_room(address[0]):
            link.close()
            return
        link.setblocking(False)
        opening = asyncio.ensure_future(self._open(link))
        self._waiting[opening] = address[0], opening.cancel
        opening.add_done_callback(lambda _: self._begin(opening, link, address))

    async def _open(self, link):
        return await asyncio.wait_for(_opened(link, self._tls), self.limits.head)

    def _begin(self, opening, link, address):
        error = None if opening.cancelled() else opening.exception()
        if opening.cancelled() or error:
            self._waiting.pop(opening, None)
            link.close()
            if isinstance(error, Refused):
                self.peers.note(address[0], str(error))
            return
        stream = opening.result()
        if opening not in self._waiting:  # it made room, but was through already
            stream.close()
            return
        # It keeps its place: the oldest makes room.
        in_place = {opening: (stream, (address[0], stream.close))}
        self._waiting = dict(in_place.get(each[0], each) for each in self._waiting.items())
        self.handle_stream(stream, address)

    def _has_room(self, peer):
        peers = [each for each, _ in (*self._waiting.values(), *self._busy.values())]
        if peers.count(peer) >= self._of_peer:
            return self._make_room(lambda each: each == peer)
        return len(peers) < self.limits.connections or self._make_room(lambda _: True)

    def _make_room(self, is_meant):
        for key, (peer, close) in self._waiting.items():
            if is_meant(peer):
                del self._waiting[key]
                close()
                return True
        return False

    def may_answer(self, peer):
        """Return whether there is room for one more request of an address, and for one of any."""
        peers = list(self.tasks.values())
        return len(peers) < self.limits.connections and peers.count(peer) < self._of_peer

    def busy(self, stream):
        """Keep a connection: its request is whole, or it may send a large one."""
        if stream in self._waiting:
            self._busy[stream] = self._waiting.pop(stream)

    def idle(self, stream):
        """Let a connection be closed if room is needed, even if it is slow to read the answer."""
        if stream in self._busy:
            self._waiting[stream] = self._busy.pop(stream)

    def flushing(self, stream, sent):
        """Let a stop wait until an answer is sent."""
        self._flushing[stream] = sent
        sent.add_done_callback(lambda _: self._flushing.pop(stream, None))

    def start_request(self, _server_conn, request_conn):
        """Return what receives a request; Tornado asks."""
        return _Exchange(self, request_conn)

    def on_close(self, server_conn):
        """Forget a connection; Tornado tells."""
        super().on_close(server_conn)
        for known in (self._waiting, self._busy, self._flushing):
            known.pop(server_conn.stream, None)


class _Exchange(HTTPMessageDelegate):
    """One request and its answer."""

    def __init__(self, server, connection):
        self._server, self._connection, self._stream = server, connection, connection.stream
        self._body, self._refused, self._is_large = bytearray(), False, False

    async def headers_received(self, start_line, headers):
        self._request = HTTPServerRequest(
            connection=self._connection, start_line=start_line, headers=headers
        )
        length = None
        try:
            length = _length(headers)
            await self._admit(length)
        except Refused as error:
            self._server.peers.note(self._request.remote_ip, str(error))
            self._refused = True
            self._connection.set_max_body_size(sys.maxsize)
            self._send(error.response)
            if length is None or length > DROPPED or "Expect" in headers:
                self._connection.finish()

    async def _admit(self, length):
        if not self._server.may_answer(self._request.remote_ip):
            raise refused(503, "too many requests at once")
        most, self._respond = await self._server.admit(self._request, length)
        if length is not None and length > most:
            raise refused(413, f"a request may have {most} bytes here")
        if length is None or length > SMALL:
            self._server.busy(self._stream)
        if length is None or length > LARGE:
            await self._take_turn()
        self._connection.set_max_body_size(most)

    async def _take_turn(self):
        try:
            await asyncio.wait_for(self._server.large.acquire(), self._server.limits.head)
        except TimeoutError:
            raise refused(503, "too many large requests at once") from None
        self._is_large = True

    def _end_turn(self):
        if self._is_large:
            self._server.large.release()
        self._is_large = False

    def data_received(self, chunk):
        if not self._refused:
            self._body += chunk

    def finish(self):
        self._end_turn()
        if self._refused:
            self._connection.finish()
            return
        self._server.busy(self._stream)
        self._request.body, self._body = bytes(self._body), bytearray()
        task = asyncio.ensure_future(self._answer())
        self._server.tasks[task] = self._request.remote_ip
        task.add_done_callback(lambda done: self._server.tasks.pop(done, None))

    def on_connection_close(self):
        self._body = bytearray()
        self._end_turn()

    async def _answer(self):
        try:
            response = await self._response()
            if isinstance(response.response, AsyncGenerator):
                await self._send_parts(response)
            else:
                self._send(response)
            self._connection.finish()
        except StreamClosedError:
            pass  # nobody reads it any more
        except Exception:
            # No reply will come, or no more of it: the client must not wait for one.
            logger.exception("%s %.200s failed", self._request.method, self._request.path)
            self._connection.close()
        finally:
            self._server.idle(self._stream)

    async def _response(self):
        try:
            return await self._respond(self._request)
        except Refused as error:
            self._server.peers.note(self._request.remote_ip, str(error))
            return error.response

    def _send(self, response):
        body = response.get_data()
        line, headers = _head(response)
        if "Content-Length" not in headers and response.status_code != 304:
            headers["Content-Length"] = str(len(body))
        body = b"" if self._request.method == "HEAD" else body
        self._server.flushing(self._stream, self._connection.write_headers(line, headers, body))

    async def _send_parts(self, response):
        sending = asyncio.current_task()
        del self._server.tasks[sending]
        self._server.flushing(self._stream, sending)
        ends_by_close = self._request.version != "HTTP/1.1"
        if ends_by_close:
            self._request.headers["Connection"] = "close"
            self._set_reset(True)  # what is cut off must not look like the end
        async with contextlib.aclosing(response.response) as parts:
            self._connection.write_headers(*_head(response))
            async for part in parts:
                for at in range(0, len(part), SMALL):
                    await self._write(part[at : at + SMALL])
        if ends_by_close and not self._stream.closed():
            self._set_reset(False)
            self._connection.close()

    async def _write(self, some):
        self._server.idle(self._stream)
        try:
            await asyncio.wait_for(self._connection.write(some), self._server.limits.body)
        except TimeoutError:
            self._server.peers.note(self._request.remote_ip, "they do not read what they asked for")
            self._connection.close()
            raise StreamClosedError from None
        finally:
            self._server.busy(self._stream)

    def _set_reset(self, is_on):
        linger = struct.pack("ii", is_on, 0)
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


class Workers(concurrent.futures.Executor):
    """An executor of daemon threads, which begin as they are needed.

    Args:
        most: threads; 0: those that call `work()`.
    """

    def __init__(self, most=0):
        self._lock = threading.Lock()
        self._calls = queue.SimpleQueue()
        self._startable, self._free = most, 0

    def submit(self, function, /, *args, **kwargs):
        """Have a call carried out, before `end()`."""
        future = concurrent.futures.Future()
        with self._lock:
            self._calls.put((future, function, args, kwargs))
            self._free -= 1
            if self._free < 0 < self._startable:
                self._startable -= 1
                self._free += 1
                threading.Thread(target=self.work, name="port-worker", daemon=True).start()
        return future

    def work(self):
        """Carry calls out until `end()`."""
        for future, function, args, kwargs in iter(self._calls.get, None):
            if future.set_running_or_notify_cancel():
                _carry_out(future, function, args, kwargs)
            with self._lock:
                self._free += 1
        self._calls.put(None)  # for the next thread

    def end(self):
        """Let `work()` return after the calls that were submitted."""
        self._calls.put(None)


def bind(host, port):
    """Return listening sockets for all addresses of a host, with one port; or none is open.

    Raises:
        OSError: the address cannot be bound.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets = []
    for family, address in dict.fromkeys((each[0], each[4][0]) for each in found):
        try:
            made = socket.create_server((address, port), family=family, backlog=512)
        except OSError as error:
            if sockets and error.errno == errno.EADDRNOTAVAIL:
                continue  # a name of this machine, which has no such address
            for each in sockets:
                each.close()
            raise
        made.setblocking(False)
        sockets.append(made)
        port = made.getsockname()[1]
    return sockets


async def _opened(link, tls):
    """Return the stream of a connection that has sent something, after the TLS handshake."""
    first = await _first_byte(link)
    if not first:
        raise ConnectionResetError
    if (first == _HANDSHAKE) == (tls is None):
        await _turn_away(link, tls)
    if tls is None:
        return IOStream(link, read_chunk_size=SMALL)
    shaking = ssl_wrap_socket(link, tls, server_side=True, do_handshake_on_connect=False)
    stream = SSLIOStream(shaking, read_chunk_size=SMALL)
    try:
        return await stream.wait_for_handshake()
    except ssl.SSLError as error:
        raise refused(400, f"the TLS handshake failed: {error.reason or error}") from None
    except asyncio.CancelledError:
        stream.close()
        raise


async def _first_byte(link):
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(link, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(link)
    return link.recv(1, socket.MSG_PEEK)


async def _turn_away(link, tls):
    """Answer who speaks the other protocol; what was sent is read, or they might not see it."""
    loop = asyncio.get_running_loop()
    said = "TLS only: call it by https" if tls else "no TLS"
    with contextlib.suppress(OSError):  # they may not wait for it
        await loop.sock_sendall(link, f"HTTP/1.0 400 this port speaks {said}\r\n\r\n".encode())
        link.shutdown(socket.SHUT_WR)
        for _ in range(DROPPED // SMALL):
            if not await loop.sock_recv(link, SMALL):
                break
    raise refused(400, "they speak no TLS, which is needed" if tls else _NO_TLS)


def _head(response):
    """Return a response's first line and headers as Tornado's."""
    headers = HTTPHeaders()
    for name, value in response.headers:
        headers.add(name, value)
    reason = response.status.partition(" ")[2]
    return ResponseStartLine("HTTP/1.1", response.status_code, reason), headers


def _length(headers):
    """Return how long a body is announced to be; None: it comes in chunks."""
    if "Transfer-Encoding" in headers:
        return None
    length = headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdigit()):
        raise refused(411, "a Content-Length is needed")
    return int(length[:18])


def _carry_out(future, function, args, kwargs):
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:  # a script may raise what would end a process
        future.set_exception(RuntimeError(repr(error)))


@contextlib.contextmanager
def _logged_otherwise(peers):
    """Let Tornado not log each broken request and handshake of this thread: there may be many."""
    thread, log = threading.get_ident(), logging.getLogger("tornado.general")

    def is_kept(record):
        ours = record.thread == thread and record.levelno < logging.ERROR
        if ours and "Malformed" in record.msg:
            peers.note(str(record.args[0]), "what they send is no request")
        return not ours

    log.addFilter(is_kept)
    try:
        yield
    finally:
        log.removeFilter(is_kept)
