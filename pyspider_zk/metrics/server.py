"""HTTP server of a component's metrics and health."""

import asyncio
import logging
import socket
import ssl
import threading
from concurrent.futures import Future
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.web import Application, RequestHandler

from pyspider_zk.metrics.admission import ScrapeAdmission
from pyspider_zk.metrics.exposition import Exposition
from pyspider_zk.metrics.health import Health

logger = logging.getLogger(__name__)

READ_LIMIT = 5.0  # seconds for the head of a request, a handshake included
HEAD_LIMIT = 8 * 1024  # bytes
MOST_CONNECTIONS = 64
STOP_LIMIT = 5.0  # seconds
THREAD = "metrics"


class MetricsServer:
    """HTTP server of one component, in a thread of its own.

    ``/healthz`` and ``/readyz`` answer everybody, with ``ok`` or what is not; ``/metrics`` those
    that the admission lets in.

    Threads: ``start`` and ``stop`` belong to one; nothing else blocks.

    Args:
        tls: with our certificate; None: without TLS.
    """

    def __init__(
        self,
        exposition: Exposition,
        health: Health,
        admission: ScrapeAdmission,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._exposition = exposition
        self._health = health
        self._admission = admission
        self._tls = tls
        self._stopped: Future[None] = Future()
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> int:
        """Listen, and serve from now on; return the port, any free one for 0.

        Raises:
            ConfigError: it may not listen there.
            OSError: it cannot.
        """
        self._admission.listen(host)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
        listening.setblocking(False)
        logging.getLogger("tornado.general").addFilter(_is_of_others)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listening)), name=THREAD, daemon=True
        )
        self._thread.start()
        return int(listening.getsockname()[1])

    def stop(self) -> None:
        """Free the port; blocks some seconds at most. Only once."""
        self._stopped.set_result(None)
        if self._thread is not None:
            self._thread.join(STOP_LIMIT)

    async def _serve(self, listening: socket.socket) -> None:
        server = _FewConnections(
            self._application(),
            ssl_options=self._tls,
            no_keep_alive=True,
            max_header_size=HEAD_LIMIT,
            max_body_size=0,
            idle_connection_timeout=READ_LIMIT,
        )
        server.add_socket(listening)
        try:
            await asyncio.wrap_future(self._stopped)
        finally:
            server.stop()
            await server.close_all_connections()

    def _application(self) -> Application:
        return Application(
            [
                ("/metrics", _Metrics, {"text": self._exposition.text, "door": self._admission}),
                ("/healthz", _Probe, {"fault": self._health.alive}),
                ("/readyz", _Probe, {"fault": self._health.ready}),
            ],
            default_handler_class=_Nothing,
            log_function=_log,
        )


class _FewConnections(HTTPServer):
    """Server that closes what comes while it has enough connections."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        self._open = 0

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if self._open >= MOST_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)


class _TextPage(RequestHandler):
    """Answers in plain text, and does not tell what answers."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")

    def write_error(self, status_code: int, **_kwargs: Any) -> None:
        self.finish(f"{status_code}\n")


class _Metrics(_TextPage):
    def initialize(self, text: Any, door: ScrapeAdmission) -> None:
        self._text = text
        self._door = door

    def get(self) -> None:
        ask = self.request.headers.get
        status = self._door.refusal(ask("Host", ""), ask("Authorization", ""))
        if status:
            self._refuse(status)
            return
        body, content_type = self._text(ask("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.finish(body)

    def _refuse(self, status: int) -> None:
        self.set_status(status)
        if status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        self.finish("metrics are not for this request\n")


class _Probe(_TextPage):
    def initialize(self, fault: Any) -> None:
        self._fault = fault

    def get(self) -> None:
        fault = self._fault()
        self.set_status(503 if fault else 200)
        self.finish(f"{fault or 'ok'}\n")


class _Nothing(_TextPage):
    def prepare(self) -> None:
        self.send_error(404)


def _log(handler: RequestHandler) -> None:
    """Log no request: there are many, and a fault of ours is logged by itself."""
    logger.debug("%d %s", handler.get_status(), handler.request.path)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Filter what Tornado logs of broken requests here: strangers could fill the log."""
    return record.threadName != THREAD
