"""Additions to the history: what this scheduler has counted, once a minute."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from uuid import uuid4

from pyspider_zk.queues.history import CLUSTER_STEP, ENDS, PENDING, TaskHistory, field_at
from pyspider_zk.scheduling.counters import TaskCounts

HASHES_AT_ONCE = 500
"""Hashes of one addition: Redis serves nobody else meanwhile, for some milliseconds."""


class HistoryAdditions:
    """What a scheduler has counted and the history does not have yet.

    Sums are added to, never set, so whoever had a project's slot when may add for it, too.

    Threads: the scheduler loop only. What an outage keeps here are sums: it does not grow with
    what is counted.

    Args:
        counts: what happens to the tasks.
        history: what it is added to.
    """

    def __init__(self, counts: TaskCounts, history: TaskHistory) -> None:
        self._counts = counts
        self._history = history
        self._name = uuid4().hex
        self._number = 0
        self._sums: dict[str, dict[str, int]] = {}
        self._sent: dict[str, dict[str, int]] = {}  # may have arrived: repeated as it is
        self._noted = float("inf")

    def add(self, now: float, pending: int) -> None:
        """Add what was counted since the last time.

        Args:
            now: in seconds since the epoch.
            pending: how many tasks are pending here.

        Raises:
            Unavailable: the rest is added the next time.
        """
        self._note(now, pending)
        while self._sent or self._sums:
            if not self._sent:
                self._number += 1
                self._sent = {
                    key: self._sums.pop(key) for key in list(islice(self._sums, HASHES_AT_ONCE))
                }
            self._history.add(self._name, self._number, self._sent)
            self._sent = {}

    def _note(self, now: float, pending: int) -> None:
        cluster: Counter[str] = Counter()
        for (project, measure), amount in self._counts.take_new().items():
            cluster[measure] += amount
            if measure in ENDS:
                self._put(now, project, measure, amount)
        for measure, amount in cluster.items():
            self._put(now, "", measure, amount)
        for at, seconds in self._passed(now):
            self._put(at, "", PENDING, round(pending * seconds))

    def _passed(self, now: float) -> Iterator[tuple[float, float]]:
        """Yield the steps since the last time, and how much of each has passed.

        One step at most: a clock that jumps says nothing about what was pending.
        """
        start = max(min(self._noted, now), now - CLUSTER_STEP)
        self._noted = now
        border = now // CLUSTER_STEP * CLUSTER_STEP
        yield start, max(0.0, border - start)
        yield now, now - max(start, border)

    def _put(self, at: float, project: str, measure: str, amount: int) -> None:
        if amount:
            key, field = field_at(at, project, measure)
            sums = self._sums.setdefault(key, {})
            sums[field] = sums.get(field, 0) + amount
