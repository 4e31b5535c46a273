"""Meter of a worker: which tasks it handled, how that ended, and how long it took."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.metrics.families import PASSED_OVER, WORK, WORKED, Metrics
from pyspider_zk.metrics.health import Pulse


class WorkMeter:
    """Meter of one worker. Threads: one counts, any may read.

    Args:
        kind: of the worker.
        passed_over: returns how many messages it passed over.

    Attributes:
        pulse: of its loop.
    """

    def __init__(self, kind: ComponentKind, passed_over: Callable[[], int]) -> None:
        self._component = kind.value
        self._passed_over = passed_over
        self._histogram = WORK.histogram()
        self._seconds = self._histogram.labels(self._component)
        self._ended = {"done": 0, "failed": 0}
        self.pulse = Pulse()

    def count(self, seconds: float, *, ok: bool) -> None:
        """Count a task that took so long."""
        self._ended["done" if ok else "failed"] += 1
        self._seconds.observe(seconds)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the block as a task, which failed if it raises."""
        began, ok = monotonic(), False
        try:
            yield
            ok = True
        finally:
            self.count(monotonic() - began, ok=ok)

    def metrics(self) -> Metrics:
        """Return the worker's metrics."""
        ended: dict[tuple[str, ...], float] = {
            (self._component, outcome): each for outcome, each in self._ended.items()
        }
        yield WORKED.each(ended)
        yield from self._histogram.collect()
        yield PASSED_OVER.by({self._component: self._passed_over()})
