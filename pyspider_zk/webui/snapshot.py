"""Snapshot: one read of ZooKeeper per answer."""

import time
from collections.abc import Callable

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import Unavailable

FRESH_FOR = 1.0  # seconds


class Readings:
    """Reader of the cluster that caches the last reading for looking up members to call.

    It also caches a failure: an answer does not wait twice for a ZooKeeper that is silent.
    Threads: one.

    Args:
        read: returns the current cluster; may raise ``ClusterError``.
        clock: in seconds.
    """

    def __init__(
        self, read: Callable[[], Cluster], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._known: Cluster | None = None
        self._at = float("-inf")

    def read(self) -> Cluster:
        """Return the current cluster.

        Raises:
            ClusterError: it cannot be read.
        """
        self._known = None
        try:
            self._known = self._read()
            return self._known
        finally:
            self._at = self._clock()

    def recent(self) -> Cluster:
        """Return the cluster as it was at most a second ago.

        Raises:
            ClusterError: it cannot be read, or could not just now.
        """
        if self._clock() - self._at > FRESH_FOR:
            return self.read()
        if self._known is None:
            raise Unavailable("ZooKeeper did not answer just now")
        return self._known
