"""Loop in its own thread, which sleeps between its turns and can be woken."""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Loop:
    """Daemon thread that takes a turn, sleeps, and takes the next one, until it is stopped.

    Threads: ``start`` and ``stop`` belong to the owner of the loop; ``wake`` and ``end`` may be
    called from any thread and never block.

    Args:
        name: the thread's.
        turn: does the work and returns how many seconds to sleep, None for until it is woken.
            If it raises, the error is logged, and the next turn comes after ``pause``.
        pause: see ``turn``.
    """

    def __init__(self, name: str, turn: Callable[[], float | None], pause: float = 1.0) -> None:
        self._turn = turn
        self._pause = pause
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Take the first turn."""
        self._thread.start()

    def wake(self, _event: object = None) -> None:
        """Take the next turn at once; may be given to ZooKeeper as a watch."""
        self._wake.set()

    def end(self) -> None:
        """Take no further turn."""
        self._ending.set()
        self._wake.set()

    def stop(self, within: float | None = None) -> None:
        """End, and wait for the present turn, at most so many seconds."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(within)

    @property
    def ends(self) -> bool:
        """Whether no further turn will be taken."""
        return self._ending.is_set()

    def rest(self, seconds: float) -> None:
        """Sleep in a turn, even if the loop is woken, unless it ends."""
        self._ending.wait(seconds)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                sleep = self._turn()
            except Exception:
                logger.exception("%s goes on after a failure", self._thread.name)
                sleep = self._pause
            self._wake.wait(sleep)
            self._wake.clear()
