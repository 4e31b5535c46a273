"""HTTP server of a component's metrics and health, and who may read them."""

import asyncio
import hmac
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from urllib.parse import urlsplit

from pyspider.libs.http_server import BoundedServer, Limits, bind
from tornado.httputil import HTTPServerRequest
from werkzeug.wrappers import Response

from pyspider_zk.listening import Listener, check_listening, is_loopback
from pyspider_zk.metrics.families import Exposition
from pyspider_zk.metrics.health import Health

logger = logging.getLogger(__name__)

SCHEME = "Bearer "
NOT_KEPT = {"Cache-Control": "no-store"}
LIMITS = Limits(connections=64, head=5.0, head_bytes=8 * 1024, keep_alive=False)
STOP_LIMIT = 5.0  # seconds

Answer = Callable[[HTTPServerRequest], Awaitable[Response]]

LISTENER = Listener(
    name="metrics",
    option="metrics",
    opens="read how much is crawled, by which processes",
    guard="metrics_token_file",
    insist="insecure",
)


class ScrapeAdmission:
    """Admission of requests for metrics; probes of health need none. Threads: any.

    Args:
        token: that scrapers present; empty: none.
        insecure: may listen on any address without one.
    """

    def __init__(self, token: str, insecure: bool) -> None:
        self._token = token.encode()
        self._insecure = insecure

    def listen(self, host: str) -> None:
        """Check that metrics may be served on a host.

        Raises:
            ConfigError: everybody could read them.
        """
        guarded = bool(self._token)
        check_listening(LISTENER, host, guarded=guarded, insecure=self._insecure)
        if not guarded and not is_loopback(host):
            logger.warning("insecure: whoever reaches %s may %s", host, LISTENER.opens)

    def refusal(self, host: str, authorization: str) -> int:
        """Return the HTTP status to refuse a request with; 0: it is admitted.

        Args:
            host: its header. Without a token only a loopback name is served: a page that gave this
                address a name of its own (DNS rebinding) could read the answer.
            authorization: its header.
        """
        if self._token:
            given = authorization.removeprefix(SCHEME).strip().encode("utf-8", "replace")
            proven = authorization.startswith(SCHEME) and hmac.compare_digest(given, self._token)
            return 0 if proven else 401
        return 0 if self._insecure or is_loopback(_name(host)) else 421


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class MetricsServer:
    """HTTP server of one component, in a thread of its own.

    ``/healthz`` and ``/readyz`` answer everybody, with ``ok`` or what is not; ``/metrics`` those
    that the admission lets in.

    Threads: ``start`` and ``stop`` belong to one; nothing else blocks.

    Args:
        tls: with our certificate; None: without TLS.
        limits: what clients may hold of the port.
    """

    def __init__(
        self,
        exposition: Exposition,
        health: Health,
        admission: ScrapeAdmission,
        tls: ssl.SSLContext | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._exposition = exposition
        self._health = health
        self._admission = admission
        self._tls = tls
        self._limits = limits
        self._stopped: Future[None] = Future()
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> int:
        """Listen, and serve from now on; return the port, any free one for 0.

        Raises:
            ConfigError: it may not listen there.
            OSError: it cannot.
        """
        self._admission.listen(host)
        sockets = bind(host, port)
        serving = BoundedServer(self._admit, self._limits, self._tls).run
        self._thread = threading.Thread(
            target=lambda: asyncio.run(serving(sockets, self._stopped, patience=STOP_LIMIT)),
            name="metrics",
            daemon=True,
        )
        bound = int(sockets[0].getsockname()[1])
        self._thread.start()
        return bound

    def stop(self) -> None:
        """Free the port; blocks some seconds at most. Only once."""
        self._stopped.set_result(None)
        if self._thread is not None:
            self._thread.join(STOP_LIMIT)

    async def _admit(self, _request: HTTPServerRequest, _length: int | None) -> tuple[int, Answer]:
        return 0, self._answer

    async def _answer(self, request: HTTPServerRequest) -> Response:
        if request.method != "GET":
            return _text("405", 405)
        if request.path == "/metrics":
            return self._metrics(request)
        if request.path == "/healthz":
            return _probed(self._health.alive())
        return _probed(self._health.ready()) if request.path == "/readyz" else _text("404", 404)

    def _metrics(self, request: HTTPServerRequest) -> Response:
        ask = request.headers.get
        status = self._admission.refusal(ask("Host", ""), ask("Authorization", ""))
        if status:
            answer = _text("metrics are not for this request", status)
            if status == 401:
                answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        try:
            body, content_type = self._exposition.text(ask("Accept", ""))
        except Exception:
            logger.exception("the metrics cannot be told")
            return _text("500", 500)
        return Response(body, headers=NOT_KEPT, content_type=content_type)


def _probed(fault: str) -> Response:
    return _text(fault or "ok", 503 if fault else 200)


def _text(text: str, status: int) -> Response:
    return Response(f"{text}\n", status, NOT_KEPT, mimetype="text/plain")
