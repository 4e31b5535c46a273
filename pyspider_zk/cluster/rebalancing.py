"""Rebalancing: the slots are evened out once, even if maintenance is on."""

import time
from collections.abc import Callable, Mapping
from threading import Event

from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.preview import SlotMove, preview, without_maintenance
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import Conflict, TimedOut

_POLL = 0.3  # seconds between two looks at whether slots still move


class Rebalancing:
    """One rebalancing. The leader does it; this asks for it, and waits.

    Threads: one runs it, any may read ``left``.

    Args:
        orders: of whoever asked for it.
        read: reads the cluster.
        projects: active projects of the slots that have any.

    Attributes:
        left: how many slots had still to move when it last looked.
    """

    def __init__(
        self, orders: Orders, read: Callable[[], Cluster], projects: Mapping[int, int]
    ) -> None:
        self._orders = orders
        self._read = read
        self._projects = projects
        self.left = 0

    def moves(self) -> list[SlotMove]:
        """Return which slots would move now, apart from those that do.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        return preview(without_maintenance(self._read()), self._projects)

    def run(self, timeout: float, ended: Event) -> None:
        """Let the slots be evened out; blocks for about ``timeout`` at most.

        If it fails, or is interrupted, maintenance goes on; if this process dies the leader goes
        on until nothing moves any more.

        Args:
            timeout: seconds.
            ended: once set, it waits no longer.

        Raises:
            TimedOut: slots still move, or it was ended before.
            Conflict: somebody ordered maintenance meanwhile.
            ClusterError: the cluster cannot be read or told.
        """
        try:
            self._orders.rebalance()
            self._await_rest(timeout, ended)
        except BaseException:
            self._orders.end_rebalance()
            raise

    def _await_rest(self, timeout: float, ended: Event) -> None:
        deadline = time.monotonic() + timeout
        while not self._is_done():
            if ended.wait(_POLL):
                raise TimedOut("it was ended while slots still moved")
            if time.monotonic() > deadline:
                raise TimedOut(f"slots still move after {timeout:g} s: see `pyspider-zk status`")

    def _is_done(self) -> bool:
        cluster = self._read()
        moving = sum(slot.next is not None for slot in cluster.assignment.slots)
        self.left = moving + len(preview(without_maintenance(cluster), self._projects))
        if cluster.settings.rebalance:
            return False
        if self.left and cluster.settings.maintenance is not Maintenance.OFF:
            raise Conflict(f"maintenance goes on, {self.left} slots did not move: see the events")
        return not self.left
