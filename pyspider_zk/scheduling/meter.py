"""Meter of how fast a member works, for its load."""

import time
from collections import deque
from collections.abc import Callable

SPAN = 10.0  # seconds that a rate is taken over


class Meter:
    """Meter of tasks done, and of rates over the last seconds.

    Threads: one.

    Args:
        clock: in seconds.
        cpu: processor seconds that this process has used.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._done = 0
        self._looks: deque[tuple[float, int, float]] = deque()

    def count(self) -> None:
        """Count one task as done."""
        self._done += 1

    def rates(self) -> tuple[float, float]:
        """Return tasks done per second, and the share of one processor that was used."""
        now, used = self._clock(), self._cpu()
        while len(self._looks) > 1 and now - self._looks[0][0] > SPAN:
            self._looks.popleft()
        self._looks.append((now, self._done, used))
        then, done, cpu = self._looks[0]
        if now <= then:
            return 0.0, 0.0
        return round((self._done - done) / (now - then), 2), round((used - cpu) / (now - then), 3)
