"""Watch over leases: how long ago each was renewed, as far as a reader knows."""

import time
from collections.abc import Callable, Mapping

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.cluster.rules import Stamp, observe
from pyspider_zk.groups.ids import MemberId


class LeaseWatch:
    """Watch that records when it first sees each renewal; the leader uses the same rule.

    So an age is how long the present renewal has been known here: it is at least as old. At the
    first read all are new. Threads: one.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stamps: Mapping[MemberId, Stamp] = {}

    def ages(self, cluster: Cluster) -> dict[MemberId, float]:
        """Return the ages after a read of the cluster, in seconds."""
        now = self._clock()
        self._stamps = observe(self._stamps, cluster.renewals, now, {})
        return {member: now - stamp.first_seen for member, stamp in self._stamps.items()}
