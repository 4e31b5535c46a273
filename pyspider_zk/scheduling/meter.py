"""Meter of how fast a member works, for its load."""

import time
from collections import deque
from collections.abc import Callable

SPAN = 10.0  # seconds that a rate is taken over


class Meter:
    """Meter of rates over the last seconds.

    Threads: one.

    Args:
        done: returns how many tasks were done since the start.
        clock: in seconds.
        cpu: processor seconds that this process has used.
    """

    def __init__(
        self,
        done: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._done = done
        self._looks: deque[tuple[float, int, float]] = deque()

    def rates(self) -> tuple[float, float]:
        """Return tasks done per second, and the share of one processor that was used."""
        now, used, total = self._clock(), self._cpu(), self._done()
        while len(self._looks) > 1 and now - self._looks[0][0] > SPAN:
            self._looks.popleft()
        self._looks.append((now, total, used))
        then, before, cpu = self._looks[0]
        if now <= then:
            return 0.0, 0.0
        return round((total - before) / (now - then), 2), round((used - cpu) / (now - then), 3)
