"""Posted calls: what other threads hand to the scheduling loop."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock


class PostedCalls:
    """Calls that other threads post and the scheduling loop makes, in order, between its steps.

    So the loop alone changes what it iterates over, and needs neither locks nor copies.

    Threads: any may ``post``, which never blocks; ``make`` and ``close`` belong to the loop.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = Lock()  # so that no call is accepted and never made
        self._is_closed = False

    def post(self, call: Callable[[], object]) -> bool:
        """Have a call made when the next round begins; return False if there is none any more."""
        with self._lock:
            if not self._is_closed:
                self._calls.put(call)
            return not self._is_closed

    def make(self) -> None:
        """Make the calls posted so far; what one raises comes through, and the rest wait."""
        for _ in range(self._calls.qsize()):
            self._calls.get()()

    def close(self) -> None:
        """Accept no more calls, and make those that were."""
        with self._lock:
            self._is_closed = True
        self.make()
