"""Meter of a worker: its tasks under way, which it ended, how, and how long each took."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.metrics.families import OLDEST, PASSED_OVER, UNDER_WAY, WORK, WORKED, Metrics
from pyspider_zk.metrics.health import Pulse

TOLD = 200  # characters of a task that are told


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
        self._under_way: dict[int, tuple[str, float]] = {}  # in the order in which they began
        self._before = (monotonic(), 0)
        self.pulse = Pulse()

    def begin(self, key: int, task: Mapping[str, Any]) -> None:
        """Note that a task has begun; ``key`` is told when it ends."""
        named = f"{task.get('project')}:{task.get('taskid')}" if "taskid" in task else task["url"]
        self._under_way[key] = (named[:TOLD], time.time())

    def end(self, key: int) -> None:
        """Note that a task is no longer under way."""
        self._under_way.pop(key, None)

    @property
    def _oldest(self) -> tuple[str, float]:
        """The task that began first, and when; copied, for another thread goes on counting."""
        return next(iter(list(self._under_way.values())), ("", 0.0))

    def report(self) -> dict[str, Any]:
        """Return what the worker does: fields of ``Component``. Threads: one calls it."""
        now, ended = monotonic(), sum(self._ended.values())
        (then, before), self._before = self._before, (now, ended)
        oldest, began = self._oldest
        return {
            "tasks_per_s": round((ended - before) / max(now - then, 1.0), 1),
            "memory": _resident(),
            "under_way": len(self._under_way),
            "oldest": oldest,
            "oldest_began": began,
        }

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
        oldest, began = self._oldest
        yield UNDER_WAY.by({self._component: len(self._under_way)})
        yield OLDEST.by({self._component: time.time() - began if oldest else 0.0})


def _resident() -> int:
    """Return the bytes of memory that this process has resident; 0 where Linux does not tell."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
