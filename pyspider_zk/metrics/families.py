"""All metrics of the product: names, meanings, labels and the values of each label.

A label has few values, all of them known here; none names a project, a task or a process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Histogram, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Metrics = Iterable[Metric]
Measure = Callable[[], Metrics]
"""Returns metrics as they are now; any thread may call it, and it does no I/O."""

PREFIX = "pyspider_zk_"

FREE = ("...",)
"""The values of a label that are not known beforehand; a process has one of them."""

COMPONENTS = ("scheduler", "processor", "fetcher", "result-worker", "renderer", "webui")
WORKERS = COMPONENTS[1:5]
DATABASES = ("taskdb", "projectdb", "resultdb")
PARTS = ("lease", "zookeeper", "message_queue", *DATABASES, "browser")
OUTCOMES = ("new", "known", "sent", "done", "failed", "retried")
QUEUES = (
    "newtask_queue",
    "status_queue",
    "scheduler2fetcher",
    "fetcher2processor",
    "processor2result",
    "parked",
)
ALERTS = (
    "no-leader",
    "no-member",
    "unserved-slots",
    "unread-queue",
    "suspect-member",
    "unreachable-member",
    "no-component",
    "dead-letters",
    "database-away",
    "quarantine",
    "parked-full",
    "unreadable",
    "maintenance",
    "lost-processor",
)


class MetricKind(StrEnum):
    """Kind of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Which processes have a metric."""

    ALL = "every component"
    SCHEDULER = "each scheduler"
    LEADER = "the leading scheduler, for the whole cluster"
    WORKER = "processors, fetchers, result workers, renderers"
    PROCESSOR = "processors"


@dataclass(frozen=True)
class Family:
    """A metric.

    Attributes:
        name: without the prefix; a counter's ends with ``_total``.
        meaning: one line, with the unit.
        labels: the values of each label.
        buckets: upper bounds of a histogram's.
    """

    name: str
    kind: MetricKind
    source: Source
    meaning: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that Prometheus knows."""
        return PREFIX + self.name

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(label for label, _ in self.labels)

    def one(self, number: float) -> Metric:
        """Return the metric without labels."""
        return self.each({(): number})

    def by(self, numbers: Mapping[str, float]) -> Metric:
        """Return the metric by the values of its only label."""
        return self.each({(value,): number for value, number in numbers.items()})

    def each(self, numbers: Mapping[tuple[str, ...], float]) -> Metric:
        """Return the metric, its numbers by the values of its labels."""
        kind = CounterMetricFamily if self.kind is MetricKind.COUNTER else GaugeMetricFamily
        metric = kind(self.full_name, self.meaning, labels=self.label_names)
        for values, number in numbers.items():
            metric.add_metric(values, number)
        return metric

    def histogram(self) -> Histogram:
        """Return a new histogram, in no registry; any thread may observe."""
        return Histogram(
            self.full_name, self.meaning, self.label_names, buckets=self.buckets, registry=None
        )


_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

BUILD = Family(
    "build_info",
    MetricKind.GAUGE,
    Source.ALL,
    "1, with the component and its version",
    (("component", COMPONENTS), ("version", FREE)),
)
READY = Family(
    "part_up",
    MetricKind.GAUGE,
    Source.ALL,
    "1 if a part that the component needs works, as far as it knows; 0 makes it not ready",
    (("part", PARTS),),
)
LOOP_AGE = Family(
    "loop_age_seconds",
    MetricKind.GAUGE,
    Source.ALL,
    "seconds since the component's loop moved last",
)

LEADING = Family("leading", MetricKind.GAUGE, Source.SCHEDULER, "1 if this scheduler leads")
SLOTS_OWNED = Family(
    "slots_owned", MetricKind.GAUGE, Source.SCHEDULER, "slots that this scheduler has in memory"
)
EPOCH = Family(
    "assignment_epoch", MetricKind.GAUGE, Source.SCHEDULER, "epoch of the assignment that it knows"
)
EPOCH_AGE = Family(
    "assignment_age_seconds",
    MetricKind.GAUGE,
    Source.SCHEDULER,
    "seconds since it saw the assignment change",
)
LEASE_LEFT = Family(
    "lease_left_seconds",
    MetricKind.GAUGE,
    Source.SCHEDULER,
    "seconds until its fence closes without a renewal; 0 or less: it is closed",
)
RENEWALS = Family(
    "lease_renewal_seconds",
    MetricKind.HISTOGRAM,
    Source.SCHEDULER,
    "how long renewals of its lease took that succeeded",
    buckets=_SHORT,
)
RENEWAL_FAILURES = Family(
    "lease_renewal_failures_total",
    MetricKind.COUNTER,
    Source.SCHEDULER,
    "renewals of its lease that failed",
)
CLOSURES = Family(
    "fence_closures_total",
    MetricKind.COUNTER,
    Source.SCHEDULER,
    "how often its fence closed while it held slots",
)
ROUNDS = Family(
    "round_seconds",
    MetricKind.HISTOGRAM,
    Source.SCHEDULER,
    "how long rounds took: whole ones, and those for new messages alone",
    (("kind", ("whole", "arrivals")),),
    buckets=_SHORT,
)
FAILED_ROUNDS = Family(
    "failed_rounds_total",
    MetricKind.COUNTER,
    Source.SCHEDULER,
    "rounds that an unexpected error ended",
)
TASKS = Family(
    "tasks_total",
    MetricKind.COUNTER,
    Source.SCHEDULER,
    "tasks: requested and put into their project's queue (new) or not (known), sent to the"
    " fetchers, done, failed for good, failed and to be retried",
    (("outcome", OUTCOMES),),
)
PENDING = Family(
    "pending_tasks",
    MetricKind.GAUGE,
    Source.SCHEDULER,
    "pending tasks of its projects: loaded, or in their rows alone (unloaded, about)",
    (("state", ("loaded", "unloaded")),),
)
SEND_BUFFER = Family(
    "send_buffer_tasks",
    MetricKind.GAUGE,
    Source.SCHEDULER,
    "tasks that wait for room in the queue to the fetchers",
)
PROJECTS = Family(
    "projects",
    MetricKind.GAUGE,
    Source.SCHEDULER,
    "projects that it has in memory (active), or in quarantine",
    (("state", ("active", "quarantined")),),
)
JOBS = Family(
    "jobs_running", MetricKind.GAUGE, Source.SCHEDULER, "jobs of batches that it carries out"
)

MEMBERS = Family("cluster_members", MetricKind.GAUGE, Source.LEADER, "schedulers that are members")
CLUSTER_COMPONENTS = Family(
    "cluster_components",
    MetricKind.GAUGE,
    Source.LEADER,
    "other components that run",
    (("component", COMPONENTS[1:]),),
)
SLOTS = Family(
    "cluster_slots",
    MetricKind.GAUGE,
    Source.LEADER,
    "slots: with a running owner and settled, on the move, without a running owner",
    (("state", ("served", "moving", "unserved")),),
)
QUEUE_LENGTH = Family(
    "cluster_queue_messages",
    MetricKind.GAUGE,
    Source.LEADER,
    "messages in a queue, all slots together; parked: in the parking lot",
    (("queue", QUEUES),),
)
QUEUE_AGE = Family(
    "cluster_queue_oldest_seconds",
    MetricKind.GAUGE,
    Source.LEADER,
    "age in seconds of the oldest message in a kind of slot queue or in the parking lot; 0: none",
    (("queue", ("newtask_queue", "status_queue", "parked")),),
)
DEAD_LETTERS = Family("cluster_dead_letters", MetricKind.GAUGE, Source.LEADER, "dead letters")
BATCHES = Family(
    "cluster_batches_running",
    MetricKind.GAUGE,
    Source.LEADER,
    "batches with jobs that have not ended",
)
RAISED = Family(
    "cluster_alerts",
    MetricKind.GAUGE,
    Source.LEADER,
    "alerts of the operations page that are raised, by kind",
    (("alert", ALERTS),),
)
CENSUS_AGE = Family(
    "cluster_census_age_seconds",
    MetricKind.GAUGE,
    Source.LEADER,
    "seconds since the leader took the census; all other numbers of the cluster are so old",
)

WORKED = Family(
    "worker_tasks_total",
    MetricKind.COUNTER,
    Source.WORKER,
    "tasks that it fetched, processed, or took the result of, and how that ended",
    (("component", WORKERS), ("outcome", ("done", "failed"))),
)
WORK = Family(
    "worker_task_seconds",
    MetricKind.HISTOGRAM,
    Source.WORKER,
    "how long each of these took",
    (("component", WORKERS),),
    buckets=_LONG,
)
PASSED_OVER = Family(
    "worker_passed_over_total",
    MetricKind.COUNTER,
    Source.WORKER,
    "messages that it passed over, because they are of no use",
    (("component", WORKERS),),
)
LOST = Family(
    "processor_lost_tasks_total",
    MetricKind.COUNTER,
    Source.PROCESSOR,
    "tasks that a processor did not survive, counted on by the next one: it was ended because they"
    " exceeded their time limit (overdue), or died by itself",
    (("cause", ("overdue", "died")),),
)

FAMILIES = tuple(each for each in globals().values() if isinstance(each, Family))
"""All of them, in the order above."""


class Exposition:
    """The metrics of one component, and of its process. Threads: one.

    Args:
        measures: asked at each scrape.
    """

    def __init__(self, measures: Iterable[Measure]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Measured(tuple(measures)))
        ProcessCollector(registry=self.registry)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type.

        Args:
            accept: the header of the request: some scrapers prefer OpenMetrics.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


class _Measured(Collector):
    def __init__(self, measures: tuple[Measure, ...]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        for measure in self._measures:
            yield from measure()
