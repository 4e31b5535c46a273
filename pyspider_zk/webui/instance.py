"""The object to name as pyspider's ``--webui-instance``."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from pyspider.webui.app import app as stock_app

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence, reachable
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
        self._ended = False

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
        settings = current_settings()
        self._ended = False
        with (
            on_signals({signal.SIGTERM: self.quit}),
            self.joined(settings, address=reachable(settings, port, host)),
        ):
            if not self._ended:  # while it joined
                self.flask_app.run(host=host, port=port)

    def quit(self) -> None:
        """End ``run``."""
        self._ended = True
        self.flask_app.quit()

    @contextmanager
    def joined(
        self, settings: Settings | None = None, queues: Queues | None = None, address: str = ""
    ) -> Iterator[None]:
        """Be a component of the cluster while the block runs.

        Raises:
            ClusterError: the cluster cannot be reached.
        """
        settings = settings or current_settings()
        with (
            closing(queues or current_queues(settings)) as queues,
            presence(settings, ComponentKind.WEBUI, address) as present,
            closing(Router(Directory(settings, present.connection).read)) as router,
            self._fed_by(router, {kind.value: _Sum(kind, queues) for kind in Kind}),
        ):
            yield

    @contextmanager
    def _fed_by(self, rpc: Router, lengths: Mapping[str, _Sum]) -> Iterator[None]:
        """Let the views ask the cluster while the block runs."""
        before = {name: self.config[name] for name in ("scheduler_rpc", "queues")}
        self.config.update(scheduler_rpc=rpc, queues={**before["queues"], **lengths})
        try:
            yield
        finally:
            self.config.update(before)


app = ClusterWebUI(stock_app)
