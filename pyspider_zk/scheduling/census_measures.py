"""Measures of the whole cluster, from the leader's last look at it."""

import time
from collections.abc import Callable, Mapping

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import Metrics
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.queue_sizes import DEAD_LETTERS
from pyspider_zk.scheduling.census import ClusterLook

PARKED = "parked"


class CensusMeasures:
    """The metrics of the cluster; there are none where nobody leads. Threads: any.

    Args:
        latest: returns the last look.
    """

    def __init__(self, latest: Callable[[], ClusterLook | None]) -> None:
        self._latest = latest

    def metrics(self) -> Metrics:
        """Return what the last look found; what did not answer is left out."""
        look = self._latest()
        if look is None:
            return
        yield families.CENSUS_AGE.one(time.monotonic() - look.at)
        yield families.RAISED.by(_raised(look))
        if look.sight.cluster is not None:
            yield from _of_cluster(look.sight.cluster)
        if look.lengths is not None:
            yield families.QUEUE_LENGTH.by(_lengths(look, look.lengths))
            yield families.DEAD_LETTERS.one(look.lengths[DEAD_LETTERS])
        if look.backlog is not None and look.parked is not None:
            yield families.QUEUE_AGE.by(_ages(look))
        if look.batches is not None:
            yield families.BATCHES.one(look.batches)


def _raised(look: ClusterLook) -> Mapping[str, float]:
    raised = [alert.kind.value for alert in look.alerts]
    return {kind: raised.count(kind) for kind in families.ALERTS}


def _of_cluster(cluster: Cluster) -> Metrics:
    yield families.MEMBERS.one(len(cluster.members))
    yield families.CLUSTER_COMPONENTS.by(
        {kind.value: len(found) for kind, found in cluster.components.items()}
    )
    yield families.SLOTS.by(_slots(cluster))


def _slots(cluster: Cluster) -> Mapping[str, float]:
    rows = cluster.assignment.slots
    unserved = sum(row.owner not in cluster.members for row in rows)
    moving = sum(row.next is not None and row.owner in cluster.members for row in rows)
    return {"served": len(rows) - moving - unserved, "moving": moving, "unserved": unserved}


def _lengths(look: ClusterLook, lengths: Mapping[str, int]) -> Mapping[str, float]:
    parked = {PARKED: sum(each.length for each in (look.parked or {}).values())}
    found = {**lengths, **(parked if look.parked is not None else {})}
    return {queue: found[queue] for queue in families.QUEUES if queue in found}


def _ages(look: ClusterLook) -> Mapping[str, float]:
    backlog, parked = look.backlog or {}, look.parked or {}
    return {
        **{
            kind.value: max(
                (each.age for (its, _), each in backlog.items() if its is kind), default=0
            )
            for kind in QueueKind
        },
        PARKED: max((each.age for each in parked.values()), default=0),
    }
