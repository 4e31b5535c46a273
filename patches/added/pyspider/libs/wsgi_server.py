"""A WSGI application, served over HTTP until it is stopped.

Added by pyspider-zk; the XML-RPC interfaces and the web UI are served by it.
"""

import asyncio
import concurrent.futures
import contextlib
import copy
import logging
import math
import threading
import time
from functools import partial

from pyspider.libs.http_server import SMALL, BoundedServer, Limits, Refused, Workers, bind
from tornado.wsgi import WSGIContainer
from werkzeug.wrappers import Response
from werkzeug.wsgi import ClosingIterator

MOST_BYTES = 16 * 2**20
"""Of one request's body; all of it is kept in memory before the application is asked."""

PART = 64 * 2**10
"""Bytes of an answer without a length that are made before it is sent, and then at a time."""

access_log = logging.getLogger("tornado.access")


class WSGIServer:
    """Listens from its construction on; `port` is the bound one, also for port 0.

    `run()` blocks. `stop()` may be called from any thread, at any time and repeatedly.

    Requests are served in `threads` threads. An answer of more than `PART` bytes whose length the
    application does not tell is sent as it is made, no faster than its client reads, and without an
    end if it fails; one thread makes them all, a part of each in turn. Requests that `is_slow` are
    served one after the other in the thread that called `run()`, so that they hold up only each
    other; in the main thread what they do can be interrupted by a time limit.

    Before a request may send a large body, `door` is asked: a WSGI application that sees the same
    request without its body. An answer with status 2xx lets it in; any other is the answer.
    """

    def __init__(
        self,
        application,
        port,
        address,
        is_slow=lambda _path: False,
        threads=1,
        limits=None,
        door=None,
    ):
        self._application, self._door, self._is_slow = application, door, is_slow
        self._limits = limits or Limits()
        self._slow, self._quick, self._parting = Workers(), Workers(threads), Workers(1)
        self._container = WSGIContainer(application)
        self._stopped = concurrent.futures.Future()
        self._sockets = bind(address, port)
        self.port = self._sockets[0].getsockname()[1]

    def run(self, started=lambda: None):
        """Serve until stop() or Ctrl-C; `started` is called in the loop."""
        server = threading.Thread(target=self._serve, args=(started,), name="wsgi-server")
        server.start()
        try:
            self._slow.work()
        except KeyboardInterrupt:
            self.stop()
            self._slow.work()
        finally:
            self.stop()
            server.join()

    def stop(self):
        """End run() once the requests in hand are answered, and free the port."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._stopped.set_result(None)

    def _serve(self, started):
        try:
            asyncio.run(self._run(started))
        finally:
            self._slow.end()
            self._quick.end()
            self._parting.end()

    async def _run(self, started):
        started()
        await BoundedServer(self._admit, self._limits).run(self._sockets, self._stopped)

    async def _admit(self, request, length):
        if self._door and (length is None or length > SMALL):
            head = copy.copy(request)
            head.headers = request.headers.copy()  # some are taken out for the environment
            answer = await self._carried_out(self._quick, self._door, head)
            if answer.status_code >= 300:
                raise Refused(answer, f"large requests are answered with {answer.status}")
        return MOST_BYTES, self._answer

    async def _answer(self, request):
        began = time.monotonic()
        lane = self._slow if self._is_slow(request.path) else self._quick
        answer = await self._carried_out(lane, self._application, request)
        _log(request, answer.status_code, time.monotonic() - began)
        return answer

    async def _carried_out(self, lane, application, request):
        ask = partial(_begun, application, self._environ(request))
        answer, rest = await asyncio.get_running_loop().run_in_executor(lane, ask)
        if rest is not None:
            answer.response = self._parts(*answer.response, rest)
        return answer

    async def _parts(self, part, rest):
        run = asyncio.get_running_loop().run_in_executor
        try:
            while part:
                yield part
                part = await run(self._parting, _part, rest)
        finally:
            # A stop may cancel this, which would take the call out of the thread's queue.
            await asyncio.shield(run(self._parting, rest.close))

    def _environ(self, request):
        # In WSGI `X_Forwarded_For` and `X-Forwarded-For` are one: a visitor could forge a proxy's.
        for name in [each for each in request.headers if "_" in each]:
            del request.headers[name]
        return self._container.environ(request)


def _begun(application, environ):
    """Return an answer and, if it has more to come, its iterator."""
    answer = Response.from_app(application, environ)
    rest = ClosingIterator(answer.response)
    size = math.inf if "Content-Length" in answer.headers else PART
    with contextlib.ExitStack() as stack:
        stack.callback(rest.close)
        answer.response = [_part(rest, size)]
        if len(answer.response[0]) < size:
            return answer, None
        stack.pop_all()
    return answer, rest


def _part(rest, size=PART):
    part, length = [], 0
    while length < size and (more := next(rest, None)) is not None:
        part.append(more)
        length += len(more)
    return b"".join(part)


def _log(request, status, seconds):
    level = logging.INFO if status < 400 else logging.WARNING if status < 500 else logging.ERROR
    about = (status, request.method, request.uri, request.remote_ip, seconds * 1000)
    access_log.log(level, "%d %s %s (%s) %.2fms", *about)
