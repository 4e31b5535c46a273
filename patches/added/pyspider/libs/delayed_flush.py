"""A flush that comes by itself: many lines of a log, one system call, and none is lost."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from io import TextIOWrapper
from types import TracebackType

DELAY = 0.05
"""Seconds that a line waits at most."""


def can_wait(handler: logging.Handler) -> bool:
    """Return whether a handler's lines can wait, and none be lost but by a `kill -9`.

    A process that SIGTERM ends on the spot could not write what waits.
    """
    ends_on_the_spot = signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None)
    is_plain = type(handler) is logging.StreamHandler and type(handler.stream) is TextIOWrapper
    return is_plain and not handler.stream.closed and not ends_on_the_spot


class DelayedFlush:
    """Calls of a function that writes what waits, while the block runs.

    A thread of its own calls it within ``DELAY`` after ``call_soon``. It is also called before the
    process forks, and when the block ends. A forked process has no such thread, and would write a
    second copy of what waits: it drops that, and there nothing may wait any more.

    Threads: any.

    Attributes:
        is_open: whether anything may wait; read it with the lock held.

    Args:
        flush: raises nothing.
        drop: what a forked process calls.
        lock: held by whoever reads ``is_open`` or flushes.
    """

    def __init__(
        self, flush: Callable[[], None], drop: Callable[[], None], lock: threading.RLock
    ) -> None:
        self.is_open = False
        self._flush = flush
        self._drop = drop
        self._lock = lock
        self._some_wait = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._flush_in_time, name="log", daemon=True)
        self.call_soon = self._some_wait.set

    def __enter__(self) -> "DelayedFlush":
        self.is_open = True
        os.register_at_fork(
            before=self._begin_fork,
            after_in_parent=self._lock.release,
            after_in_child=self._begin_child,
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self.is_open = False
            self._flush()
        self._ends.set()
        self._some_wait.set()
        self._thread.join()

    def _begin_fork(self) -> None:
        self._lock.acquire()  # logging gives the child another
        self._flush()

    def _begin_child(self) -> None:
        self.is_open = False
        self._drop()

    def _flush_in_time(self) -> None:
        while self._some_wait.wait():
            self._some_wait.clear()  # first: nothing that is set from here on is overlooked
            if self._ends.wait(DELAY):
                return
            self._flush()
