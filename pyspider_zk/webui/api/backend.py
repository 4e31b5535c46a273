"""Backend of the API: what it speaks for."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from flask import current_app, request

from pyspider_zk.cluster.directory import LeaseWatch
from pyspider_zk.cluster.event_archive import EventArchive
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.queues.api import SlotQueues
from pyspider_zk.queues.history import TaskHistory
from pyspider_zk.queues.log_lines import ClusterLog
from pyspider_zk.queues.queue_sizes import QueueSizes
from pyspider_zk.rpc.router import Router
from pyspider_zk.tasks.task_report import Reports
from pyspider_zk.webui.audit import record
from pyspider_zk.webui.logins import LOGIN
from pyspider_zk.webui.rebalancer import Rebalancer

FRESH_FOR = 1.0  # seconds that a reading serves for looking up members
_KEY = "pyspider_zk"


class Readings:
    """Reader of the cluster that caches the last reading for looking up members to call.

    It also caches a failure: an answer does not wait twice for a ZooKeeper that is silent.
    Threads: any.
    """

    def __init__(
        self, read: Callable[[], Cluster], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._known: Cluster | None = None
        self._at = float("-inf")

    def read(self) -> Cluster:
        """Return the current cluster, or raise ``ClusterError``."""
        found = None
        try:
            found = self._read()
            return found
        finally:
            self._known, self._at = found, self._clock()

    def recent(self) -> Cluster:
        """Return the cluster as it was at most a second ago, or raise ``ClusterError``."""
        if self._clock() - self._at > FRESH_FOR:
            return self.read()
        if self._known is None:
            raise Unavailable("ZooKeeper did not answer just now")
        return self._known


@dataclass(frozen=True)
class Backend:
    """The cluster behind the API.

    Attributes:
        cluster: reads the state in ZooKeeper.
        queues: counts the messages of each queue, and the dead letters.
        history: what was counted in the last two weeks.
        log: what all components have warned of lately.
        rpc: calls all members.
        orders: returns the orders of a user.
        rebalancer: evens the slots out beside the requests.
        config: pyspider's settings of the web UI, which may change while it runs.
    """

    cluster: Callable[[], Cluster]
    queues: QueueSizes
    batch_service: BatchService
    reports: Reports
    scripts: ScriptVersions
    events: EventLog
    archive: EventArchive
    slot_queues: SlotQueues
    history: TaskHistory
    log: ClusterLog
    rpc: Router
    leases: LeaseWatch
    settings: Settings
    orders: Callable[[str], Orders]
    rebalancer: Rebalancer
    config: Mapping[str, Any]

    def bind(self, flask_app: Any) -> None:
        """Let this application's views find it."""
        flask_app.extensions[_KEY] = self


def backend() -> Backend:
    """Return what the current request is about."""
    return cast(Backend, current_app.extensions[_KEY])


def user() -> str:
    """Return the name of who is logged in, empty if nobody is."""
    login = request.environ.get(LOGIN)
    return str(login.name) if login else ""


def tell(event: Event) -> None:
    """Append to the event log; that it is away undoes nothing of what was done."""
    record(backend().events.append, event)
