"""Waiting with a limit for something in ZooKeeper."""

import logging
import threading
from collections.abc import Callable

from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.clock import boottime
from pyspider_zk.zookeeper.errors import OUTDATED

logger = logging.getLogger(__name__)

LOOK = 5.0  # seconds; watches are hints, so check again even if none fired
RETRY_PAUSE = 0.2  # seconds, while ZooKeeper does not answer


class Waiter:
    """Loop that checks, sleeps until something changes, and checks again.

    Threads: one thread waits; ``wake`` may be called from any, kazoo's included.

    Attributes:
        fault: why it last could not check.
    """

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._changed = threading.Event()
        self.fault: Exception | None = None

    def wake(self, _event: object = None) -> None:
        """Make the waiting thread check again; meant to be passed as a watch."""
        self._changed.set()

    def until(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``holds`` returns true; return false if it did not within ``timeout`` seconds.

        It checks at least once, and also waits while ZooKeeper does not answer.

        Args:
            holds: checks, with ``wake`` as the watch; what it raises ends the waiting, except for
                ``Unavailable`` and ``OUTDATED``.
            timeout: seconds; None waits for as long as it takes.
        """
        deadline = float("inf") if timeout is None else self._clock() + timeout
        while True:
            self._changed.clear()
            pause = LOOK
            try:
                if holds():
                    return True
            except (Unavailable, *OUTDATED) as error:
                self.fault = error
                logger.debug("waiting goes on: %r", error)
                pause = RETRY_PAUSE
            left = deadline - self._clock()
            if left <= 0:
                return False
            self._changed.wait(min(pause, left))
