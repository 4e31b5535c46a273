"""Instance: the object to name as pyspider's ``--webui-instance``."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from pyspider_zk.cluster.directory import Directory, LeaseWatch
from pyspider_zk.cluster.event_archive import EventArchive
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.records import Cluster, ComponentKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.components.identity import presence, reachable
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import (
    current_data_path,
    current_queues,
    current_settings,
    is_given,
)
from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.listening import check_port
from pyspider_zk.metrics.health import Health, patience
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.queue_sizes import QueueSizes
from pyspider_zk.rpc.client import credentials_of
from pyspider_zk.rpc.router import Router
from pyspider_zk.tasks.task_report import Reports
from pyspider_zk.webui import cluster
from pyspider_zk.webui.accounts import NO_SCHEDULER_RPC, check_open, login_faults, login_settings
from pyspider_zk.webui.api import PREFIX, create_api
from pyspider_zk.webui.api.backend import Backend, Readings
from pyspider_zk.webui.limits import limited
from pyspider_zk.webui.page_data import Answering, configured, replaced
from pyspider_zk.webui.protection import protected
from pyspider_zk.webui.rebalancer import Rebalancer
from pyspider_zk.webui.saved_scripts import SavingProjects
from pyspider_zk.webui.trials import run_apart
from pyspider_zk.zookeeper.connection import Connection

PATIENCE = 1.0
"""Seconds that a member may take for an answer that the operations page soon repeats."""

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


_TRIAL = re.compile("/+debug/.+/run")


class RequestsInHand:
    """A WSGI application that knows which requests it is answering. Threads: any.

    Trials of scripts are left out: they have limits of their own, and a page is fetched first.
    """

    def __init__(self, inner: WsgiApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._clock = clock
        self._since: dict[int, float] = {}  # by thread

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        if _TRIAL.fullmatch(environ.get("PATH_INFO", "")):
            return self._inner(environ, start_response)
        thread = threading.get_ident()
        self._since[thread] = self._clock()
        try:
            return self._inner(environ, start_response)
        finally:
            del self._since[thread]

    @property
    def age(self) -> float:
        """Seconds since the oldest came; 0 without one."""
        oldest = min(self._since.copy().values(), default=None)
        return 0.0 if oldest is None else self._clock() - oldest


class _Sum:
    """The length that ``/queues`` shows: the inbox and all slot queues together."""

    def __init__(self, kind: QueueKind, queues: Queues) -> None:
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
        """Serve until ``quit``, SIGTERM or Ctrl-C.

        Raises:
            ClusterError: the cluster cannot be reached.
            ConfigError: a login is needed, and there is none, or it cannot be used; or there is no
                such port.
        """
        if is_given("scheduler_rpc"):
            raise ConfigError([f"webui, {NO_SCHEDULER_RPC}"])
        check_port("port", int(port))  # config.json may have it as text
        settings = current_settings()
        with configured(self.config, login_settings(settings)):
            if faults := login_faults(settings, self.config):
                raise ConfigError(faults)
            check_open(host, settings, self.config)
        try:
            with (
                on_signals({signal.SIGTERM: self.quit, signal.SIGINT: self.quit}),
                self.joined(settings, address=reachable(settings, port, host), listens=host),
            ):
                if not self._ended:  # before this began, or while it joined
                    self.flask_app.run(host=host, port=port)
        finally:
            self._ended = False
            self.flask_app.ended.clear()

    def quit(self) -> None:
        """End ``run``, at once if it begins later."""
        self._ended = True
        self.flask_app.quit()

    @contextmanager
    def joined(
        self,
        settings: Settings | None = None,
        queues: Queues | None = None,
        address: str = "",
        listens: str = "127.0.0.1",
    ) -> Iterator[None]:
        """Be a component of the cluster while the block runs.

        Args:
            settings: of this process; None: as it was started.
            queues: the cluster's, closed at the end; None: those of this process.
            address: where others reach it.
            listens: the address that it binds.

        Raises:
            ClusterError: the cluster cannot be reached.
            ConfigError: the secret for calls to schedulers cannot be used.
        """
        settings = settings or current_settings()
        asking = credentials_of(settings)
        asking.check()
        with (
            closing(queues or current_queues(settings)) as queues,
            presence(settings, ComponentKind.WEBUI, address) as present,
            closing(
                Router(Directory(settings, present.connection).read, credentials=asking)
            ) as router,
            closing(ScriptVersions(self.config["projectdb"])) as scripts,
            configured(self.config, self._given(scripts)),
            limited(self.flask_app),
            self._with_pages(settings, present.connection, queues, scripts),
            self._monitored(settings, present.connection),
            protected(
                self.flask_app,
                settings,
                EventLog(present.connection, Tree(settings.root)).append,
                listens,
            ),
            configured(self.config, self._feed(Answering(router), queues)),
        ):
            yield

    def _given(self, scripts: ScriptVersions) -> dict[str, Any]:
        """Return the settings by which the views show projects and run scripts."""
        return {
            "projectdb": SavingProjects(self.config["projectdb"], scripts),
            "run_apart": run_apart,
            "cluster_pages": cluster.PREFIX,
        }

    @contextmanager
    def _monitored(self, settings: Settings, connection: Connection) -> Iterator[None]:
        """Serve metrics and health while the block runs, if the settings say where."""
        requests = RequestsInHand(self.flask_app.wsgi_app)
        limit = patience(settings.hang, self.config["process_time_limit"])
        health = Health(lambda: requests.age, limit, lambda: {"zookeeper": connection.connected})
        monitoring = Monitoring(ComponentKind.WEBUI, health)
        with (
            replaced(self.flask_app, "wsgi_app", requests),
            monitored(settings, monitoring, current_data_path()),
        ):
            yield

    @contextmanager
    def _with_pages(
        self, settings: Settings, connection: Connection, queues: Queues, scripts: ScriptVersions
    ) -> Iterator[None]:
        """Serve the API and the operations page beside pyspider's pages while the block runs."""
        tree, read = Tree(settings.root), _reader(settings, connection)
        readings, asking = Readings(read), credentials_of(settings)
        events, orders = EventLog(connection, tree), partial(Orders, connection, tree)
        jobs, projectdb = JobQueue(connection, tree.jobs), self.config["projectdb"]
        reports = Reports.of(self.config["taskdb"], self.config["resultdb"])
        with (
            closing(
                Router(readings.recent, fresh_for=0, timeout=PATIENCE, credentials=asking)
            ) as hasty,
            closing(Rebalancer(orders, read)) as rebalancer,
            closing(reports.search),
            closing(EventArchive(projectdb.original)) as archive,
        ):
            backend = Backend(
                cluster=readings.read,
                queues=QueueSizes(queues),
                batch_service=BatchService(projectdb, jobs, events, readings.read, settings.slots),
                reports=reports,
                scripts=scripts,
                events=events,
                archive=archive,
                slot_queues=queues.slot_queues,
                history=queues.history,
                log=queues.log,
                rpc=hasty,
                leases=LeaseWatch(),
                settings=settings,
                orders=orders,
                rebalancer=rebalancer,
                config=self.config,
            )
            pages = cluster.create_pages(self.config)
            ours: dict[str, Any] = {PREFIX: create_api(backend), cluster.PREFIX: pages}
            both = DispatcherMiddleware(self.flask_app.wsgi_app, ours)
            with replaced(self.flask_app, "wsgi_app", both):
                yield

    def _feed(self, rpc: Answering, queues: Queues) -> dict[str, Any]:
        """Return the settings by which the views reach the cluster."""
        lengths = {kind.value: _Sum(kind, queues) for kind in QueueKind}
        return {"scheduler_rpc": rpc, "queues": {**self.config["queues"], **lengths}}


def _reader(settings: Settings, connection: Connection) -> Callable[[], Cluster]:
    """Return a function that reads the cluster, or raises at once if ZooKeeper is away."""
    directory = Directory(settings, connection)

    def read() -> Cluster:
        connection.require()
        return directory.read()

    return read


app = ClusterWebUI(stock_app)
