"""Circuit breaker: remembers whether a database answers, and when to try it again."""

import logging
import time
from collections.abc import Callable
from threading import Lock

from pyspider_zk.pauses import doubling, pause_after

logger = logging.getLogger(__name__)

PAUSES = doubling(0.1, 4.0)  # seconds between two probes of an unavailable database


class Breaker:
    """Circuit breaker of one database.

    Closed, everybody may use the database. Open, nobody does until a pause is over, each twice as
    long as the last; then it is probed. Loss and return are logged once each.

    Threads: any; nothing blocks.

    Args:
        name: what the database is called in logs and in the lease: ``taskdb``.
        clock: in seconds, for the pauses.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._lock = Lock()
        self._failures = 0  # 0: closed
        self._due = 0.0
        self._since = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the database is unavailable."""
        return self._failures > 0

    @property
    def left(self) -> float:
        """Seconds until it may be probed; 0 if it may, or if it is not away."""
        return max(0.0, self._due - self._clock()) if self._failures else 0.0

    def failed(self, error: BaseException) -> None:
        """Open it, or keep it open for longer."""
        with self._lock:
            now = self._clock()
            if not self._failures:
                self._since = now
                logger.warning("%s is away, what needs it waits: %r", self.name, error)
            self._failures += 1
            self._due = now + pause_after(self._failures, PAUSES)

    def answered(self) -> None:
        """Close it."""
        with self._lock:
            if self._failures:
                away = self._clock() - self._since
                logger.info("%s answers again, after %.1f s", self.name, away)
            self._failures = 0
