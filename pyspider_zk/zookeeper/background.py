"""Background work that may block and keeps nobody waiting: a program's callbacks, tidying up."""

import logging
import queue
import threading
from collections.abc import Callable

from pyspider_zk.errors import SessionLost, Unavailable

logger = logging.getLogger("pyspider_zk.errands")

RETRY_PAUSE = 0.2  # seconds


class Errands:
    """Thread that does what it is given, one after the other.

    Threads: a daemon thread of its own, from ``start`` to ``stop``; methods may be called from
    any. What an errand raises is logged.
    """

    def __init__(self) -> None:
        self._errands: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._chores: list[Callable[[], object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="errands", daemon=True)

    def start(self) -> None:
        """Begin to do what was given."""
        self._thread.start()

    def stop(self) -> None:
        """End after the errand that is being done; not to be called from one."""
        self._stopping.set()
        self._errands.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join()

    def do(self, errand: Callable[[], object]) -> None:
        """Do something soon."""
        self._errands.put(errand)

    def do_until_done(self, chore: Callable[[], object]) -> None:
        """Do something that ZooKeeper does not let us do now; try until it does.

        Args:
            chore: raises ``Unavailable`` or ``SessionLost`` if it must be tried again; may be
                done twice.
        """
        self.do(lambda: self._chores.append(chore))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                errand = self._errands.get(timeout=RETRY_PAUSE if self._chores else None)
            except queue.Empty:
                errand = self._do_a_chore
            try:
                errand()
            except Exception:
                logger.exception("%s failed", errand)

    def _do_a_chore(self) -> None:
        """Do what waits longest; what cannot be done yet waits behind the others."""
        chore = self._chores.pop(0)
        try:
            chore()
        except (Unavailable, SessionLost) as error:
            logger.debug("it waits: %s", error)
            self._chores.append(chore)
