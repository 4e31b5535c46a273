"""Back-off of a process from an unavailable or full message queue.

One `BackOff` serves all queues of a process, since they are in one Redis: the first that finds it
unavailable logs that, and keeps the others from trying until a pause is over, each longer than the
last.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Timer

from pyspider_zk.errors import Unavailable
from pyspider_zk.outage import Outage
from pyspider_zk.pauses import doubling, pause_after

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two tries during an outage
ROOM_PAUSE = 0.1  # seconds between two checks of a full queue


class BackOff:
    """Remembers whether the message queue is unavailable, and when to try it again.

    Threads: any; only `rest` and `wait` block.

    Args:
        logger: logs the beginning and the end of an outage, once each.
        consequence: what happens meanwhile; the end of the first of these lines.
        grace: seconds of waiting after `close`.
        pause: the first pause, seconds; each one is twice as long as that before.
    """

    def __init__(
        self,
        logger: logging.Logger,
        consequence: str,
        grace: float = 5.0,
        pause: float = FIRST_PAUSE,
    ) -> None:
        self._outage = Outage(logger, f"%s; {consequence}", "the message queue answers again")
        self._grace = grace
        self._pauses = doubling(pause, LONGEST_PAUSE)
        self._lock = Lock()
        self._failures = 0
        self._in_a_row = 0
        self._due = 0.0
        self._over = Event()
        self._waited = float("-inf")

    @property
    def resting(self) -> bool:
        """Whether the message queue is unavailable and must not be tried yet."""
        return self._left() > 0

    @property
    def is_away(self) -> bool:
        """Whether the message queue did not answer when it was asked last."""
        return self._outage.lasts

    @property
    def since_wait(self) -> float:
        """Seconds since the last `wait` began; infinite before the first."""
        return time.monotonic() - self._waited

    @property
    def over(self) -> bool:
        """Whether the grace after `close` is over: no more waiting."""
        return self._over.is_set()

    def failed(self, error: Unavailable) -> None:
        """Remember that the message queue did not answer."""
        with self._lock:
            self._outage.failed(error)
            self._failures += 1
            self._in_a_row += 1
            self._due = time.monotonic() + pause_after(self._in_a_row, self._pauses)

    def answered(self) -> None:
        """Remember that the message queue answered."""
        with self._lock:
            self._outage.answered()
            self._in_a_row = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record whether the message queue answered during a piece of work.

        It did if nothing failed, unless an outage is still to be confirmed as over.

        Raises:
            Unavailable: as it was raised.
        """
        before = self._failures
        try:
            yield
        except Unavailable as error:
            self.failed(error)
            raise
        if self._failures == before and not self.resting:
            self.answered()

    def rest(self, limit: float) -> None:
        """Wait until the message queue may be tried; `limit` seconds at most."""
        self._over.wait(min(limit, self._left()))

    def wait(self, limit: float = LONGEST_PAUSE) -> None:
        """Wait until it may be tried again, be it unavailable or full; `limit` seconds at most.

        Raises:
            Unavailable: the grace is over.
        """
        self._waited = time.monotonic()
        if self._over.wait(min(limit, max(ROOM_PAUSE, self._left()))):
            raise Unavailable("the message queue is away or full, and this process ends")

    def close(self) -> None:
        """Begin the grace."""
        timer = Timer(self._grace, self._over.set)
        timer.daemon = True
        timer.start()

    def _left(self) -> float:
        return max(0.0, self._due - time.monotonic()) if self._in_a_row else 0.0
