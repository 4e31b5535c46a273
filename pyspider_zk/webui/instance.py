"""The object to name as pyspider's ``--webui-instance``."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspider.webui.app import app as stock_app

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence
from pyspider_zk.hooks.router import Router
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.queues.api import Queues
from pyspider_zk.wiring import current_queues, current_settings
from pyspider_zk.zookeeper.directory import Directory


class _Sum:
    """The length that ``/queues`` shows: the inbox and all slot queues together."""

    def __init__(self, kind: Kind, queues: Queues) -> None:
        self._kind = kind
        self._queues = queues

    def qsize(self) -> int:
        """Return how many messages wait."""
        slots = self._queues.slot_queues.lengths()[self._kind]
        return slots + self._queues.inbox.lengths()[self._kind]


class ClusterWebUI:
    """pyspider's own application, with the cluster in place of one scheduler.

    pyspider fills ``config`` and calls ``run``; every view keeps working on the same object.
    """

    def __init__(self, flask_app: Any) -> None:
        self.flask_app = flask_app
        self.config = flask_app.config

    @property
    def debug(self) -> bool:
        """Flask's debug switch, which pyspider sets."""
        return bool(self.flask_app.debug)

    @debug.setter
    def debug(self, value: bool) -> None:
        self.flask_app.debug = value

    def run(self, host: str = "127.0.0.1", port: int = 5000) -> None:
        """Serve until ``quit`` or SIGTERM.

        Raises:
            ClusterError: the cluster cannot be reached.
        """
        with on_signals({signal.SIGTERM: self.quit}), self.joined(address=f"{host}:{port}"):
            self.flask_app.run(host=host, port=port)

    def quit(self) -> None:
        """End ``run``."""
        self.flask_app.quit()

    @contextmanager
    def joined(
        self, settings: Settings | None = None, queues: Queues | None = None, address: str = ""
    ) -> Iterator[None]:
        """Be a component of the cluster while the block runs."""
        settings = settings or current_settings()
        queues = queues or current_queues(settings)
        with presence(settings, ComponentKind.WEBUI, address) as present:
            router = Router(Directory(settings, present.connection).read)
            self.config["scheduler_rpc"] = router
            self.config["queues"].update({kind.value: _Sum(kind, queues) for kind in Kind})
            try:
                yield
            finally:
                router.close()
                queues.close()


app = ClusterWebUI(stock_app)
