"""Background work that may block: callbacks of a program, and clean-up."""

import logging
import queue
import threading
from collections.abc import Callable

from pyspider_zk.errors import SessionLost, Unavailable

logger = logging.getLogger("pyspider_zk.errands")

RETRY_PAUSE = 0.2  # seconds


class Errands:
    """Thread that carries out functions, one after the other.

    Threads: a daemon thread of its own, from ``start`` to ``stop``; methods may be called from
    any. Exceptions are logged.
    """

    def __init__(self) -> None:
        self._errands: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._chores: list[Callable[[], object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="errands", daemon=True)

    def start(self) -> None:
        """Begin to carry out the functions."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current errand; not to be called from one."""
        self._stopping.set()
        self._errands.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join()

    def do(self, errand: Callable[[], object]) -> None:
        """Call a function soon."""
        self._errands.put(errand)

    def do_until_done(self, chore: Callable[[], object]) -> None:
        """Call a function until it succeeds, for work that ZooKeeper does not allow now.

        Args:
            chore: raises ``Unavailable`` or ``SessionLost`` if it must be retried; may be called
                after it succeeded.
        """
        self.do(lambda: self._chores.append(chore))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                errand = self._errands.get(timeout=RETRY_PAUSE if self._chores else None)
            except queue.Empty:
                errand = self._try_next
            try:
                errand()
            except Exception:
                logger.exception("%s failed", errand)

    def _try_next(self) -> None:
        """Try the chore that has waited longest; if it fails it goes behind the others."""
        chore = self._chores.pop(0)
        try:
            chore()
        except (Unavailable, SessionLost) as error:
            logger.debug("it will be retried: %s", error)
            self._chores.append(chore)
