"""A WSGI application, served by Tornado until it is stopped.

Added by pyspider-zk; the XML-RPC interfaces and the web UI are served by it.
"""

import asyncio
import concurrent.futures
import contextlib
import queue
import threading

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.wsgi import WSGIContainer

MOST_BYTES = 16 * 2**20
"""Of one request's body; Tornado keeps all of it in memory before the application is asked."""


class WSGIServer:
    """Listens from its construction on; `port` is the bound one, also for port 0.

    `run()` blocks. `stop()` may be called from any thread, at any time and repeatedly.

    Requests are served one after the other, in a thread of their own. Those that `is_slow` are
    served in the thread that called `run()`, so that they hold up only each other; in the main
    thread what they do can be interrupted by a time limit.
    """

    def __init__(self, application, port, address, is_slow=lambda _path: False):
        self._slow = _Calls()
        self._container = _Container(application)
        slow = _Container(application, self._slow)
        self._containers = (self._container, slow)
        self._server = HTTPServer(
            lambda request: self._containers[is_slow(request.path)](request),
            max_body_size=MOST_BYTES,
            max_buffer_size=MOST_BYTES,
        )
        self._stopped = concurrent.futures.Future()
        self._sockets = bind_sockets(port, address)
        self.port = self._sockets[0].getsockname()[1]

    def run(self, started=lambda: None):
        """Serve until stop() or Ctrl-C; `started` is called in the loop."""
        server = threading.Thread(target=self._serve, args=(started,), name="wsgi-server")
        server.start()
        try:
            self._slow.work()
        except KeyboardInterrupt:
            self._slow.end()
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

    async def _run(self, started):
        self._server.add_sockets(self._sockets)
        started()
        try:
            await asyncio.wrap_future(self._stopped)
        finally:
            self._server.stop()
            tasks = [task for each in self._containers for task in each.tasks]
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._server.close_all_connections()


class _Calls(concurrent.futures.Executor):
    """An executor whose one worker is the thread that calls `work()`."""

    def __init__(self):
        self._lock = threading.Lock()
        self._calls = queue.SimpleQueue()
        self._ended = False

    def submit(self, function, /, *args, **kwargs):
        """Have a call carried out; after `end()` it is cancelled."""
        future = concurrent.futures.Future()
        with self._lock:
            if self._ended:
                future.cancel()
            else:
                self._calls.put((future, function, args, kwargs))
        return future

    def work(self):
        """Carry calls out until `end()`."""
        for future, function, args, kwargs in iter(self._calls.get, None):
            if future.set_running_or_notify_cancel():
                _carry_out(future, function, args, kwargs)

    def end(self):
        """Let `work()` return; calls that nobody carried out are cancelled."""
        with self._lock:
            self._ended = True
            while not self._calls.empty():
                call = self._calls.get()
                if call is not None:
                    call[0].cancel()
            self._calls.put(None)


def _carry_out(future, function, args, kwargs):
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:  # a script may raise what would end a process
        future.set_exception(RuntimeError(repr(error)))


class _Container(WSGIContainer):
    """Knows the requests in hand, so that stopping cuts off no reply, not even that of `_quit`."""

    def __init__(self, application, executor=None):
        super().__init__(application, executor)
        self.tasks = set()

    def environ(self, request):
        # In WSGI `X_Forwarded_For` and `X-Forwarded-For` are one: a visitor could forge a proxy's.
        for name in [each for each in request.headers if "_" in each]:
            del request.headers[name]
        return super().environ(request)

    async def handle_request(self, request):
        task = asyncio.current_task()
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            await super().handle_request(request)
        except Exception:
            # No reply will come: the client must not wait for one, as it would with Tornado 6.
            request.connection.close()
            raise
