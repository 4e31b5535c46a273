"""Rebalancing: the slots are evened out once, even if maintenance is on."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event

from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.preview import SlotMove, preview, without_maintenance
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import SessionLost, TimedOut, Unavailable

_POLL = 0.3  # seconds between two looks at whether slots still move


class Rebalancing:
    """One rebalancing. The leader does it; this suspends maintenance, and waits.

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
        """Suspend maintenance until no slot moves any more; blocks for about ``timeout`` at most.

        Args:
            timeout: seconds.
            ended: once set, it waits no longer.

        Raises:
            TimedOut: slots still move, or it was ended before.
            ClusterError: the cluster cannot be read or told.
        """
        with self._without_maintenance(timeout, ended):
            self._await_rest(timeout, ended)

    @contextmanager
    def _without_maintenance(self, timeout: float, ended: Event) -> Iterator[None]:
        before = self._orders.maintenance()
        try:
            self._orders.suspend_maintenance()  # may be done although it raises
            yield
        finally:
            self._resume(before, timeout, ended)

    def _resume(self, before: Maintenance, timeout: float, ended: Event) -> None:
        """Put maintenance back, though ZooKeeper may be away for a while."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._orders.resume_maintenance(before)
            except (Unavailable, SessionLost):
                if ended.wait(_POLL) or time.monotonic() > deadline:
                    raise
            else:
                return

    def _await_rest(self, timeout: float, ended: Event) -> None:
        deadline = time.monotonic() + timeout
        while self._look():
            if ended.wait(_POLL):
                raise TimedOut("it was ended while slots still moved")
            if time.monotonic() > deadline:
                raise TimedOut(f"slots still move after {timeout:g} s: see `pyspider-zk status`")

    def _look(self) -> int:
        """Return how many slots have still to move."""
        cluster = self._read()
        moving = sum(slot.next is not None for slot in cluster.assignment.slots)
        self.left = moving + len(preview(without_maintenance(cluster), self._projects))
        return self.left
