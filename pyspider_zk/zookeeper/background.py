"""Background work that may block: callbacks of a program, and clean-up."""

import logging
from collections import deque
from collections.abc import Callable

from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.loop import Loop

logger = logging.getLogger(__name__)

RETRY_PAUSE = 0.2  # seconds


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
