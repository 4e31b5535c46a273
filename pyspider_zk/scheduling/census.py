"""Census: what the leader knows of the whole cluster, looked at again and again."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspider_zk.cluster.alerts import Alert, Observation, alerts
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.directory import LeaseWatch
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.jobs.model import JobState
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.loop import Loop
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import Metrics
from pyspider_zk.outage import Outage
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.queue_sizes import PARKED, QueueSizes, Waiting, answer_of

logger = logging.getLogger("scheduler")

INTERVAL = 5.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class ClusterLook:
    """One look at the cluster; None is what did not answer.

    Attributes:
        at: when, on the monotonic clock.
        sight: what alerts are derived from.
        batches: how many batches have jobs that have not ended.
    """

    at: float
    sight: Observation
    waiting: Waiting
    batches: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything answered."""
        return self.sight.cluster is not None and None not in self.waiting

    @property
    def alerts(self) -> list[Alert]:
        """What an operator should look at."""
        return alerts(self.sight)


class Census:
    """Census of the cluster by the member that leads; the others look at nothing.

    Threads: a loop of its own looks, and blocks while services are slow; ``latest`` may be read
    from any.

    Args:
        ownership: tells who leads, and reads the cluster.
        jobs: the cluster's job queue.
        queues: of its own: not all of what is asked may be asked beside the scheduler's loop.
        lease: of this member, in seconds.
        on_look: called with each look, in the loop; with None while this member does not lead.

    Attributes:
        loop: looks again and again; its owner starts and stops it. The queues stay open.
        latest: the last look; None while this member does not lead.
    """

    def __init__(
        self,
        ownership: Coordinator,
        jobs: JobQueue,
        queues: Queues,
        lease: float,
        on_look: Callable[[ClusterLook | None], None] = lambda _look: None,
    ) -> None:
        self._ownership = ownership
        self._jobs = jobs
        self._queues = queues
        self._sizes = QueueSizes(queues)
        self._lease = lease
        self._on_look = on_look
        self._leases = LeaseWatch()
        self._outage = Outage(logger, "the census misses something: %s", "the census is whole")
        self.loop = Loop("census", self._turn, INTERVAL)
        self.latest: ClusterLook | None = None

    def _turn(self) -> float:
        self.latest = self._look() if self._ownership.leading else None
        self._on_look(self.latest)
        return INTERVAL

    def _look(self) -> ClusterLook:
        """Look at everything; what does not answer is left out."""
        missing: list[ClusterError] = []
        cluster = answer_of(self._ownership.cluster, missing)
        waiting = self._sizes.look(missing)
        batches = None if cluster is None else answer_of(self._open_batches, missing)
        self._note(missing)
        sight = Observation(
            cluster=cluster,
            lease_ages=self._leases.ages(cluster) if cluster else {},
            lease=self._lease,
            backlog=waiting.backlog,
            dead_letters=waiting.dead,
            unreadable=self._queues.slot_queues.unreadable(),
            full=waiting.full,
        )
        return ClusterLook(time.monotonic(), sight, waiting, batches)

    def _open_batches(self) -> int:
        states = (JobState.PENDING, JobState.RUNNING)
        return len({name.group for state in states for name in self._jobs.names(state)})

    def _note(self, missing: list[ClusterError]) -> None:
        if missing:
            self._outage.failed(missing[0])
        else:
            self._outage.answered()


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
        waiting = look.waiting
        if waiting.dead is not None:
            lengths = waiting.messages
            yield families.QUEUE_LENGTH.by({q: lengths[q] for q in families.QUEUES if q in lengths})
            yield families.DEAD_LETTERS.one(waiting.dead)
        if waiting.backlog is not None and waiting.parked is not None:
            aged, oldest = (*QueueKind, PARKED), waiting.oldest
            yield families.QUEUE_AGE.by({queue: oldest.get(queue, 0) for queue in aged})
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
