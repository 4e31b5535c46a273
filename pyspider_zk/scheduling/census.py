"""Census: what the leader knows of the whole cluster, looked at again and again."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspider_zk.cluster.alerts import Alert, Observation, alerts
from pyspider_zk.cluster.directory import LeaseWatch
from pyspider_zk.cluster.ownership import Ownership
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.jobs.model import JobState
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.loop import Loop
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import Metrics
from pyspider_zk.outage import Outage
from pyspider_zk.queues.api import Queues, SlotBacklog
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.queue_sizes import DEAD_LETTERS, QueueSizes
from pyspider_zk.scheduling.parking import PARKED_LIMIT

logger = logging.getLogger("scheduler")

INTERVAL = 5.0
"""Seconds between two looks."""

T = TypeVar("T")


@dataclass(frozen=True)
class ClusterLook:
    """One look at the cluster; None is what did not answer.

    Attributes:
        at: when, on the monotonic clock.
        sight: what alerts are derived from.
        lengths: messages per queue, and dead letters.
        backlog: slot queues that are not empty.
        parked: slots for which messages are parked.
        batches: how many batches have jobs that have not ended.
    """

    at: float
    sight: Observation
    lengths: Mapping[str, int] | None = None
    backlog: Mapping[SlotQueue, SlotBacklog] | None = None
    parked: Mapping[int, SlotBacklog] | None = None
    batches: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything answered."""
        found = (self.sight.cluster, self.lengths, self.backlog, self.parked)
        return all(each is not None for each in found)

    @property
    def alerts(self) -> list[Alert]:
        """What an operator should look at."""
        return alerts(self.sight)


class Census:
    """Census of the cluster by the member that leads; the others look at nothing.

    Threads: a loop of its own looks, and blocks while services are slow; ``latest`` may be read
    from any. ``start`` and ``stop`` belong to one.

    Args:
        ownership: tells who leads, and reads the cluster.
        jobs: the cluster's job queue.
        queues: of its own: not all of what is asked may be asked beside the scheduler's loop.
        stock: pyspider's queues, by name.
        lease: of this member, in seconds.
        on_look: called with each look, in the loop; with None while this member does not lead.

    Attributes:
        latest: the last look; None while this member does not lead.
    """

    def __init__(
        self,
        ownership: Ownership,
        jobs: JobQueue,
        queues: Queues,
        stock: Mapping[str, object],
        lease: float,
        on_look: Callable[[ClusterLook | None], None] = lambda _look: None,
    ) -> None:
        self._ownership = ownership
        self._jobs = jobs
        self._queues = queues
        self._sizes = QueueSizes(queues, stock)
        self._lease = lease
        self._on_look = on_look
        self._leases = LeaseWatch()
        self._outage = Outage(logger, "the census misses something: %s", "the census is whole")
        self._loop = Loop("census", self._turn, INTERVAL)
        self.latest: ClusterLook | None = None

    def start(self) -> None:
        """Begin to look."""
        self._loop.start()

    def stop(self) -> None:
        """End, and wait for the present look, some seconds at most. Its queues stay open."""
        self._loop.stop(INTERVAL)

    def _turn(self) -> float:
        self.latest = self._look() if self._ownership.leading else None
        self._on_look(self.latest)
        return INTERVAL

    def _look(self) -> ClusterLook:
        """Look at everything; what does not answer is left out."""
        missing: list[ClusterError] = []
        cluster = _or_none(self._ownership.cluster, missing)
        lengths = _or_none(self._sizes.read, missing)
        backlog = parked = None
        if lengths is not None:
            backlog = _or_none(self._queues.slot_queues.backlog, missing)
            parked = _or_none(self._queues.parking_lot.waiting, missing)
        batches = None if cluster is None else _or_none(self._open_batches, missing)
        self._note(missing)
        sight = self._sight(cluster, lengths, backlog, parked)
        return ClusterLook(time.monotonic(), sight, lengths, backlog, parked, batches)

    def _sight(
        self,
        cluster: Cluster | None,
        lengths: Mapping[str, int] | None,
        backlog: Mapping[SlotQueue, SlotBacklog] | None,
        parked: Mapping[int, SlotBacklog] | None,
    ) -> Observation:
        return Observation(
            cluster=cluster,
            lease_ages=self._leases.ages(cluster) if cluster else {},
            lease=self._lease,
            backlog=backlog,
            dead_letters=None if lengths is None else lengths[DEAD_LETTERS],
            unreadable=self._queues.slot_queues.unreadable(),
            full=tuple(
                slot for slot, each in (parked or {}).items() if each.length >= PARKED_LIMIT
            ),
        )

    def _open_batches(self) -> int:
        states = (JobState.PENDING, JobState.RUNNING)
        return len({name.group for state in states for name in self._jobs.names(state)})

    def _note(self, missing: list[ClusterError]) -> None:
        if missing:
            self._outage.failed(missing[0])
        else:
            self._outage.answered()


def _or_none(ask: Callable[[], T], missing: list[ClusterError]) -> T | None:
    try:
        return ask()
    except ClusterError as error:
        missing.append(error)
        return None


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
