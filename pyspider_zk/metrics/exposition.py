"""Exposition: the text of a process's metrics, in a registry of its own."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Metrics = Iterable[Metric]
Measure = Callable[[], Metrics]
"""Returns metrics as they are now; any thread may call it, and it does no I/O."""


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
