"""Monitoring of a component: its metrics and health, served as the settings say."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspider_zk import __version__
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.metrics.families import BUILD, LOOP_AGE, READY, Exposition, Measure, Metrics
from pyspider_zk.metrics.health import Health
from pyspider_zk.metrics.server import MetricsServer, ScrapeAdmission
from pyspider_zk.metrics.targets import TARGETS, announce
from pyspider_zk.rpc.tls import server_tls

logger = logging.getLogger(__name__)


class Monitoring:
    """What a component tells of itself.

    Args:
        component: its kind, as in ``pyspider_zk.metrics.families.COMPONENTS``.
        health: of it.
        measures: return its metrics.
    """

    def __init__(self, component: str, health: Health, measures: Iterable[Measure] = ()) -> None:
        self.component = component
        self.health = health
        self.exposition = Exposition([self._common, *measures])

    def _common(self) -> Metrics:
        yield BUILD.each({(self.component, __version__): 1})
        yield READY.by({name: float(works) for name, works in self.health.parts().items()})
        yield LOOP_AGE.one(self.health.loop_age())


@contextmanager
def monitored(settings: Settings, monitoring: Monitoring, data: Path | None) -> Iterator[None]:
    """Serve metrics and health while the block runs, if the settings say where.

    Args:
        data: pyspider's folder of data, where a free port is announced; None: nowhere.

    Raises:
        ConfigError: they may not be served there, or not with these files of TLS.
        ClusterError: the port cannot be had, or not be announced.
    """
    if not settings.metrics:
        yield
        return
    server, file = _server(settings, monitoring), None
    host, port = _listen(settings, server)
    logger.info("%s: metrics and health at %s:%d", monitoring.component, host, port)
    try:
        if data and settings.metrics.endswith(":0"):
            file = _announced(data, monitoring.component, host, port)
        yield
    finally:
        if file is not None:
            file.unlink(missing_ok=True)
        server.stop()


def _server(settings: Settings, monitoring: Monitoring) -> MetricsServer:
    admission = ScrapeAdmission(settings.metrics_token, settings.insecure)
    tls = server_tls(settings) if settings.xmlrpc_tls_certificate else None
    return MetricsServer(monitoring.exposition, monitoring.health, admission, tls)


def _listen(settings: Settings, server: MetricsServer) -> tuple[str, int]:
    parts = urlsplit(f"//{settings.metrics}")
    host, port = parts.hostname or "", parts.port or 0
    try:
        return host, server.start(host, port)
    except OSError as error:
        raise ClusterError(
            f"metrics cannot listen at {settings.metrics} ({error}): give each process of this"
            " machine a port of its own (PYSPIDER_ZK_METRICS), or port 0"
        ) from error


def _announced(data: Path, component: str, host: str, port: int) -> Path:
    try:
        return announce(data / TARGETS, component, host, port)
    except OSError as error:
        raise ClusterError(
            f"where metrics are cannot be written ({error}): make --data-path writable, or give"
            " this process a port (PYSPIDER_ZK_METRICS)"
        ) from error
