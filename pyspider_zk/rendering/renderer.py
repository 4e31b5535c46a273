"""The renderer, a component of a cluster: answers fetchers with pages as a browser shows them."""

import asyncio
import json
import logging
import signal
import socket
from asyncio import timeout_at
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from ssl import SSLContext
from time import monotonic
from typing import Any

from playwright.async_api import Error
from pyspider.libs.http_server import BoundedServer, bind, refused
from tornado.httputil import HTTPServerRequest
from werkzeug.wrappers import Response

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence, reachable
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadRequest, ClusterError, MissingService, brief
from pyspider_zk.listening import is_loopback
from pyspider_zk.metrics.health import Health
from pyspider_zk.rendering.chromium import Chromium
from pyspider_zk.rendering.gate import Gate, Reach, addresses
from pyspider_zk.rendering.page import RenderedPage, failed
from pyspider_zk.rendering.request import RenderRequest, render_request
from pyspider_zk.rpc.admission import Admitted, CallAdmission, CallRefused
from pyspider_zk.rpc.server import HttpAdmission, check_body, limits_of
from pyspider_zk.rpc.tls import TLS, server_tls
from pyspider_zk.workers.work_meter import WorkMeter

logger = logging.getLogger(__name__)

BODY_LIMIT = 16 * 2**20  # bytes of a request
BEAT = 1.0  # seconds
RESOLVERS = 4  # threads of one page that resolve names

Answer = Callable[[HTTPServerRequest], Awaitable[Response]]


class Renderer:
    """Renders what fetchers ask for, in the protocol of pyspider's PhantomJS.

    Args:
        pages: that are open at the same time; others wait.
        entry: decides who may ask.

    Attributes:
        meter: of its pages.
    """

    def __init__(
        self, chromium: Chromium, pages: int, settings: Settings, entry: CallAdmission
    ) -> None:
        self._settings = settings
        self._admission = HttpAdmission(entry)
        self._is_guarded = entry.guarded
        self._pages = pages
        self._places = asyncio.Semaphore(pages)
        self._chromium = chromium
        self._closing: set[asyncio.Task[None]] = set()
        self.meter = WorkMeter(ComponentKind.RENDERER, lambda: 0)

    def parts(self) -> dict[str, bool]:
        """Return whether each part works that rendering needs, as far as is known."""
        return {"browser": self._chromium.works}

    async def serve(
        self,
        sockets: Sequence[socket.socket],
        stopped: Future[None],
        tls: SSLContext | None = None,
    ) -> None:
        """Answer fetchers until ``stopped`` is done; what is in hand is answered then."""
        beating = asyncio.create_task(self._beat())
        async with self._chromium:
            server = BoundedServer(self._admit, limits_of(self._settings), tls)
            await server.run(sockets, stopped, patience=self._settings.drain)
            await asyncio.gather(*self._closing, return_exceptions=True)
        beating.cancel()

    async def _beat(self) -> None:
        while True:
            self.meter.pulse.beat()
            await asyncio.sleep(BEAT)

    async def _admit(self, request: HTTPServerRequest, _: int | None) -> tuple[int, Answer]:
        if request.method == "GET":
            return 0, self._greet
        admitted = await self._admission.admit(request)
        return BODY_LIMIT, partial(self._answer, admitted)

    async def _greet(self, _: HTTPServerRequest) -> Response:
        told = "fetchers ask it by POST" + ", and prove the secret" * self._is_guarded
        return Response(f"a renderer: {told}\n", 401 if self._is_guarded else 200)

    async def _answer(self, admitted: Admitted, request: HTTPServerRequest) -> Response:
        began = monotonic()
        try:
            check_body(admitted, request.body)
            asked = render_request(json.loads(request.body))
        except (BadRequest, CallRefused, ValueError) as error:
            raise refused(400, brief(error)) from None
        self.meter.begin(id(asked), {"url": asked.url})
        try:
            page = await self._rendered(asked, began + asked.patience)
        finally:
            self.meter.end(id(asked))
        page["time"] = monotonic() - began
        self.meter.count(page["time"], ok=page["status_code"] < 400)
        logger.info("[%d] %.200r %.2fs", page["status_code"], asked.url, page["time"])
        text = json.dumps(page, ensure_ascii=False)  # half characters are escaped, too
        body = text.encode(errors="backslashreplace")
        return Response(body, mimetype="application/json")

    async def _rendered(self, asked: RenderRequest, until: float) -> dict[str, Any]:
        """Return a page as soon as there is a place for it, until its fetcher waits no more."""
        try:
            async with timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            error = f"the renderer is busy: all of its {self._pages} pages (--pages) are open"
            return failed(asked, error)
        held = AsyncExitStack()
        held.callback(self._places.release)
        try:
            return await self._opened(asked, min(until, monotonic() + asked.limit), held)
        except TimeoutError:
            return failed(asked, f"Chromium has opened no page within {asked.limit:g} s")
        except (Error, OSError, MissingService) as error:
            logger.error("%.200r failed: %s", asked.url, brief(error))
            return failed(asked, brief(error))
        finally:
            closing = asyncio.create_task(held.aclose())  # nobody shall wait for that
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _opened(
        self, asked: RenderRequest, until: float, held: AsyncExitStack
    ) -> dict[str, Any]:
        settings = self._settings
        host, port = asked.place
        resolvers = ThreadPoolExecutor(RESOLVERS, "renderer resolves")
        held.callback(resolvers.shutdown, wait=False, cancel_futures=True)
        async with timeout_at(until):
            found = [] if asked.proxy else await addresses(host, port, resolvers)
            reach = Reach(settings.forbidden_networks, settings.renderer_networks, found, port)
            gate = await held.enter_async_context(Gate(reach, asked.url, resolvers))
            browser = await self._chromium.browser()
            page = RenderedPage(asked, gate, settings.page_limit)
            await held.enter_async_context(page.opened(browser))
        return await page.render(until)


def run_renderer(
    renderer: Renderer, settings: Settings, host: str, port: int, data: Path | None
) -> None:
    """Render until SIGTERM; what is asked for by then is answered. Main thread only.

    Args:
        data: pyspider's folder of data.

    Raises:
        ClusterError: the cluster cannot be joined, or the port not be had.
    """
    is_own = is_loopback(host)
    tls = None if is_own else server_tls(settings)
    try:
        sockets = bind(host, port)
    except OSError as error:
        where = f"{host}:{port}"
        raise ClusterError(f"cannot listen at {where} ({error}): choose another --port") from error
    stopped = Future[None]()

    def stop() -> None:
        with suppress(InvalidStateError):
            stopped.set_result(None)

    health = Health(lambda: renderer.meter.pulse.age, settings.hang, renderer.parts)
    monitoring = Monitoring(ComponentKind.RENDERER, health, [renderer.meter.metrics])
    bound = int(sockets[0].getsockname()[1])
    address = f"{host}:{bound}" if is_own else reachable(settings, bound, host)
    with (
        on_signals({signal.SIGTERM: stop, signal.SIGINT: stop}),
        monitored(settings, monitoring, data),
        presence(
            settings,
            ComponentKind.RENDERER,
            TLS * bool(tls) + address,
            report=renderer.meter.report,
        ),
    ):
        logger.info("renderer listening on %s:%s", host, bound)
        asyncio.run(renderer.serve(sockets, stopped, tls))
