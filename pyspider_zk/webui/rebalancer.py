"""Rebalancer: runs a rebalancing beside the requests, which may not wait for it."""

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from threading import Event, Lock, Thread
from typing import NamedTuple

from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import Rebalancing
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError, Conflict

logger = logging.getLogger(__name__)


class RebalanceState(StrEnum):
    """Where the last rebalancing stands."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class RebalanceProgress(NamedTuple):
    """How far the last rebalancing of this web UI is."""

    state: RebalanceState
    total: int = 0
    left: int = 0
    fault: str = ""


class Rebalancer:
    """Runs one rebalancing at a time, in a thread of its own.

    Threads: any. Only ``close`` blocks, until maintenance goes on.

    Args:
        orders: returns the orders of a user.
        read: reads the cluster, in any thread.
    """

    def __init__(self, orders: Callable[[str], Orders], read: Callable[[], Cluster]) -> None:
        self._orders = orders
        self._read = read
        self._lock = Lock()
        self._ended = Event()
        self._thread: Thread | None = None
        self._rebalancing: Rebalancing | None = None
        self._told = RebalanceProgress(RebalanceState.NONE)

    def start(
        self, who: str, projects: Mapping[int, int], total: int, timeout: float
    ) -> RebalanceProgress:
        """Begin one.

        Args:
            projects: active projects of the slots that have any.
            timeout: seconds that they may take.

        Raises:
            Conflict: another one runs.
        """
        with self._lock:
            if self._told.state is RebalanceState.RUNNING:
                raise Conflict("a rebalancing runs already: wait until it is done")
            rebalancing = Rebalancing(self._orders(who), self._read, projects)
            rebalancing.left = total
            self._told = RebalanceProgress(RebalanceState.RUNNING, total, total)
            self._rebalancing = rebalancing
            self._thread = Thread(target=self._run, args=(rebalancing, total, timeout))
            self._thread.start()
            return self._told

    def progress(self) -> RebalanceProgress:
        """Return how far the last one is."""
        with self._lock:
            if self._rebalancing and self._told.state is RebalanceState.RUNNING:
                return self._told._replace(left=self._rebalancing.left)
            return self._told

    def close(self) -> None:
        """End the one that runs."""
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _run(self, rebalancing: Rebalancing, total: int, timeout: float) -> None:
        state, fault = RebalanceState.FAILED, "the web UI's log says why"
        try:
            rebalancing.run(timeout, self._ended)
            state, fault = RebalanceState.DONE, ""
        except ClusterError as error:
            fault = str(error)
            logger.warning("rebalancing failed: %s", error)
        finally:
            with self._lock:
                self._told = RebalanceProgress(state, total, rebalancing.left, fault)
