"""The XML-RPC server of a member."""

import socketserver
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

Functions = Mapping[str, Callable[..., Any]]


class _Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ()  # any path is answered, as pyspider does


class _Server(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    """One thread per call: members call each other, so a single one could wait for itself."""

    daemon_threads = True
    allow_reuse_address = True


class RpcServer:
    """Serves functions until it is stopped.

    Threads: ``serve`` blocks the thread that it is called on; ``address`` and ``stop`` may be
    called from any other.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._server: Future[_Server] = Future()
        self._stopped = threading.Event()

    def serve(self, host: str, port: int) -> None:
        """Bind (port 0: any free one) and answer until ``stop``.

        Raises:
            OSError: the address cannot be bound; ``address`` raises it too.
        """
        try:
            server = _Server((host, port), _Handler, logRequests=False, allow_none=True)
        except OSError as error:
            self._server.set_exception(error)
            raise
        with server:
            server.register_introspection_functions()
            for name, function in self._functions.items():
                server.register_function(function, name)
            self._server.set_result(server)
            if not self._stopped.is_set():
                server.serve_forever(poll_interval=0.1)

    def port(self, patience: float) -> int:
        """Return the bound port; wait up to ``patience`` seconds for ``serve``.

        Raises:
            OSError: ``serve`` could not bind.
            TimeoutError: ``serve`` was not called.
        """
        return int(self._server.result(patience).server_address[1])

    def stop(self) -> None:
        """End ``serve`` and close the port; not from a call that this server answers."""
        self._stopped.set()
        if self._server.done() and self._server.exception() is None:
            self._server.result().shutdown()
