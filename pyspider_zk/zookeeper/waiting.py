"""Waiting for something in ZooKeeper: with a limit, or on a thread in the background."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.loop import Loop
from pyspider_zk.zookeeper.errors import OUTDATED

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return seconds on a clock that never jumps and that counts suspension.

    A lease counted on a clock that stands still while the machine sleeps would still look valid
    after waking. Where CLOCK_BOOTTIME is missing (macOS), the monotonic clock has to do.
    """
    return time.clock_gettime(_CLOCK)


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


class Errands:
    """Thread that carries out functions, one after the other.

    Threads: a daemon thread of its own, from ``start`` to ``stop``; methods may be called from
    any. Exceptions are logged.
    """

    def __init__(self) -> None:
        self._errands: deque[Callable[[], object]] = deque()
        self._chores: deque[Callable[[], object]] = deque()
        self._loop = Loop("errands", self._turn)

    def start(self) -> None:
        """Begin to do what was given."""
        self._loop.start()

    def stop(self) -> None:
        """End after the errand that is being done; not to be called from one."""
        self._loop.stop()

    def do(self, errand: Callable[[], object]) -> None:
        """Do something soon."""
        self._errands.append(errand)
        self._loop.wake()

    def do_until_done(self, chore: Callable[[], object]) -> None:
        """Call a function until it succeeds, for work that ZooKeeper does not allow now.

        Args:
            chore: raises ``Unavailable`` or ``SessionLost`` if it must be retried; may be called
                after it succeeded.
        """
        self.do(lambda: self._chores.append(chore))

    def _turn(self) -> float | None:
        """Do all errands, and the chore that has waited longest."""
        while self._errands and not self._loop.ends:
            _try(self._errands.popleft())
        if self._chores and not self._loop.ends:
            _try(self._do_a_chore)
        return RETRY_PAUSE if self._chores else None

    def _do_a_chore(self) -> None:
        """Do what waits longest; what cannot be done yet waits behind the others."""
        chore = self._chores.popleft()
        try:
            chore()
        except (Unavailable, SessionLost) as error:
            logger.debug("it will be retried: %s", error)
            self._chores.append(chore)


def _try(errand: Callable[[], object]) -> None:
    try:
        errand()
    except Exception:
        logger.exception("%s failed", errand)
