"""A WSGI application, served by Tornado in the thread that runs it until it is stopped.

Added by pyspider-zk; the XML-RPC interfaces and the web UI are served by it.
"""

import asyncio
import concurrent.futures
import contextlib

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.wsgi import WSGIContainer


class WSGIServer:
    """Listens from its construction on; `port` is the bound one, also for port 0.

    `run()` blocks. `stop()` may be called from any thread, at any time and repeatedly.
    """

    def __init__(self, application, port, address):
        self._container = _Container(application)
        self._server = HTTPServer(self._container)
        self._stopped = concurrent.futures.Future()
        self._sockets = bind_sockets(port, address)
        self.port = self._sockets[0].getsockname()[1]

    def run(self, started=lambda: None):
        """Serve until stop() or Ctrl-C; `started` is called in the loop."""
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(self._run(started))

    def stop(self):
        """End run() once the requests in hand are answered, and free the port."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._stopped.set_result(None)

    async def _run(self, started):
        self._server.add_sockets(self._sockets)
        started()
        try:
            await asyncio.wrap_future(self._stopped)
        finally:
            self._server.stop()
            await asyncio.gather(*self._container.tasks, return_exceptions=True)
            await self._server.close_all_connections()


class _Container(WSGIContainer):
    """Knows the requests in hand, so that stopping cuts off no reply, not even that of `_quit`."""

    def __init__(self, application):
        super().__init__(application)
        self.tasks = set()

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
