"""All metrics of the product: names, meanings, labels and the values of each label.

A label has few values, all of them known here; none names a project, a task or a process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

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
    "broken-projects",
    "paused-projects",
    "failing-tasks",
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


def _family(
    kind: MetricKind,
    name: str,
    source: Source,
    meaning: str,
    buckets: tuple[float, ...] = (),
    /,
    **labels: tuple[str, ...],
) -> Family:
    return Family(name, kind, source, meaning, tuple(labels.items()), buckets)


_counter = partial(_family, MetricKind.COUNTER)
_gauge = partial(_family, MetricKind.GAUGE)
_histogram = partial(_family, MetricKind.HISTOGRAM)

_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

BUILD = _gauge(
    "build_info",
    Source.ALL,
    "1, with the component and its version",
    component=COMPONENTS,
    version=FREE,
)
READY = _gauge(
    "part_up",
    Source.ALL,
    "1 if a part that the component needs works, as far as it knows; 0 makes it not ready",
    part=PARTS,
)
LOOP_AGE = _gauge("loop_age_seconds", Source.ALL, "seconds since the component's loop moved last")

LEADING = _gauge("leading", Source.SCHEDULER, "1 if this scheduler leads")
SLOTS_OWNED = _gauge("slots_owned", Source.SCHEDULER, "slots that this scheduler has in memory")
EPOCH = _gauge("assignment_epoch", Source.SCHEDULER, "epoch of the assignment that it knows")
EPOCH_AGE = _gauge(
    "assignment_age_seconds", Source.SCHEDULER, "seconds since it saw the assignment change"
)
LEASE_LEFT = _gauge(
    "lease_left_seconds",
    Source.SCHEDULER,
    "seconds until its fence closes without a renewal; 0 or less: it is closed",
)
RENEWALS = _histogram(
    "lease_renewal_seconds",
    Source.SCHEDULER,
    "how long renewals of its lease took that succeeded",
    _SHORT,
)
RENEWAL_FAILURES = _counter(
    "lease_renewal_failures_total", Source.SCHEDULER, "renewals of its lease that failed"
)
CLOSURES = _counter(
    "fence_closures_total", Source.SCHEDULER, "how often its fence closed while it held slots"
)
ROUNDS = _histogram(
    "round_seconds",
    Source.SCHEDULER,
    "how long rounds took: whole ones, and those for new messages alone",
    _SHORT,
    kind=("whole", "arrivals"),
)
FAILED_ROUNDS = _counter(
    "failed_rounds_total", Source.SCHEDULER, "rounds that an unexpected error ended"
)
TASKS = _counter(
    "tasks_total",
    Source.SCHEDULER,
    "tasks: requested and put into their project's queue (new) or not (known), sent to the"
    " fetchers, done, failed for good, failed and to be retried",
    outcome=OUTCOMES,
)
PENDING = _gauge(
    "pending_tasks",
    Source.SCHEDULER,
    "pending tasks of its projects: loaded, or in their rows alone (unloaded, about)",
    state=("loaded", "unloaded"),
)
SEND_BUFFER = _gauge(
    "send_buffer_tasks", Source.SCHEDULER, "tasks that wait for room in the queue to the fetchers"
)
PROJECTS = _gauge(
    "projects",
    Source.SCHEDULER,
    "projects that it has in memory (active), or in quarantine",
    state=("active", "quarantined"),
)
JOBS = _gauge("jobs_running", Source.SCHEDULER, "jobs of batches that it carries out")

MEMBERS = _gauge("cluster_members", Source.LEADER, "schedulers that are members")
CLUSTER_COMPONENTS = _gauge(
    "cluster_components", Source.LEADER, "other components that run", component=COMPONENTS[1:]
)
SLOTS = _gauge(
    "cluster_slots",
    Source.LEADER,
    "slots: with a running owner and settled, on the move, without a running owner",
    state=("served", "moving", "unserved"),
)
QUEUE_LENGTH = _gauge(
    "cluster_queue_messages",
    Source.LEADER,
    "messages in a queue, all slots together; parked: in the parking lot",
    queue=QUEUES,
)
QUEUE_AGE = _gauge(
    "cluster_queue_oldest_seconds",
    Source.LEADER,
    "age in seconds of the oldest message in a kind of slot queue or in the parking lot; 0: none",
    queue=("newtask_queue", "status_queue", "parked"),
)
DEAD_LETTERS = _gauge("cluster_dead_letters", Source.LEADER, "dead letters")
BATCHES = _gauge("cluster_batches_running", Source.LEADER, "batches with jobs that have not ended")
RAISED = _gauge(
    "cluster_alerts",
    Source.LEADER,
    "alerts of the operations page that are raised, by kind",
    alert=ALERTS,
)
CENSUS_AGE = _gauge(
    "cluster_census_age_seconds",
    Source.LEADER,
    "seconds since the leader took the census; all other numbers of the cluster are so old",
)

WORKED = _counter(
    "worker_tasks_total",
    Source.WORKER,
    "tasks that it fetched, processed, or took the result of, and how that ended",
    component=WORKERS,
    outcome=("done", "failed"),
)
WORK = _histogram(
    "worker_task_seconds", Source.WORKER, "how long each of these took", _LONG, component=WORKERS
)
UNDER_WAY = _gauge(
    "worker_under_way_tasks", Source.WORKER, "tasks that it has begun", component=WORKERS
)
OLDEST = _gauge(
    "worker_oldest_seconds",
    Source.WORKER,
    "seconds since it began the oldest of these; 0: it has none",
    component=WORKERS,
)
PASSED_OVER = _counter(
    "worker_passed_over_total",
    Source.WORKER,
    "messages that it passed over, because they are of no use",
    component=WORKERS,
)
LOST = _counter(
    "processor_lost_tasks_total",
    Source.PROCESSOR,
    "tasks that a processor did not survive, counted on by the next one: it was ended because they"
    " exceeded their time limit (overdue), or died by itself",
    cause=("overdue", "died"),
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
