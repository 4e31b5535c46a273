"""Facts about a cluster, as `survey` finds them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.groups.ids import MemberId


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster and its clocks. Times are seconds since the epoch.

    Attributes:
        joined: when each member registered, by ZooKeeper's clock.
        renewed: when each member's lease was renewed last, by ZooKeeper's clock.
        told: the newest event, and when it was written, by ZooKeeper's clock; None without one.
        now: by our clock.
    """

    cluster: Cluster
    joined: Mapping[MemberId, float]
    renewed: Mapping[MemberId, float]
    told: tuple[Event, float] | None
    now: float
