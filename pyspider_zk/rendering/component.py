"""The renderer as a component of a cluster."""

import asyncio
import logging
import signal
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path

from pyspider.libs.http_server import bind

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence, reachable
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.listening import is_loopback
from pyspider_zk.metrics.health import Health
from pyspider_zk.rendering.renderer import Renderer, RendererPlan
from pyspider_zk.rpc.admission import CallAdmission
from pyspider_zk.rpc.tls import TLS, server_tls

logger = logging.getLogger(__name__)


def run_renderer(
    plan: RendererPlan,
    settings: Settings,
    entry: CallAdmission,
    host: str,
    port: int,
    data: Path | None,
) -> None:
    """Render until SIGTERM; what is asked for by then is answered. Main thread only.

    Args:
        entry: of the port.
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
    renderer, stopped = Renderer(plan, settings, entry), Future[None]()

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
        presence(settings, ComponentKind.RENDERER, TLS * bool(tls) + address),
    ):
        logger.info("renderer listening on %s:%s", host, bound)
        asyncio.run(renderer.serve(sockets, stopped, tls))
