"""The XML-RPC server of a member."""

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

logger = logging.getLogger("pyspider_zk.rpc")

POLL = 0.1  # seconds until a stop is noticed

Functions = Mapping[str, Callable[..., Any]]


class _Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ()  # any path is answered, as pyspider does
    timeout = 30.0  # seconds; a client that connects and says nothing must not keep a thread


class _Server(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    """One thread per call: members call each other, so a single one could wait for itself."""

    daemon_threads = True
    allow_reuse_address = True
    timeout = POLL

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
