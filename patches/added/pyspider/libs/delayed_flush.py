"""Flushes of a stream that wait for each other: many lines of a log, one system call."""

import contextlib
import logging
import os
import select
import signal
import threading
from io import TextIOWrapper
from types import TracebackType

DELAY = 0.05
"""Seconds that a line waits at most."""

PIECE = select.PIPE_BUF
"""Bytes that a pipe takes in one piece."""


def can_wait(handler: logging.Handler) -> bool:
    """Return whether a handler's lines can wait, and none be lost but by a `kill -9`.

    A process that SIGTERM ends on the spot could not write what waits.
    """
    ends_on_the_spot = signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None)
    is_plain = type(handler) is logging.StreamHandler and type(handler.stream) is TextIOWrapper
    return is_plain and not handler.stream.closed and not ends_on_the_spot


class DelayedFlush:
    """A handler's stream, to which lines can be written that are flushed later, together.

    While the block runs, they wait in the stream's own buffer. So whatever else is written through
    the stream comes after them, and whoever flushes it, as a handler does after each of its lines,
    flushes them first. They are whole lines, and not more than a pipe takes in one piece:
    other processes that write to it do not come between.

    Threads: any may write. A thread of its own flushes what nobody flushed within ``DELAY``.

    Args:
        handler: one that ``can_wait``.
    """

    def __init__(self, handler: "logging.StreamHandler[TextIOWrapper]") -> None:
        self.stream = handler.stream
        self._lock = handler.lock
        self._was = (handler.stream.line_buffering, handler.stream.write_through)
        self._is_open = False
        self._size = 0
        self._some_wait = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._flush_in_time, name="log", daemon=True)

    def __enter__(self) -> "DelayedFlush":
        self._set_modes(False, False)
        self._is_open = True
        # Of what waits, a forked process would write a second copy; and threads are not forked.
        os.register_at_fork(
            before=self._begin_fork, after_in_parent=self._lock.release, after_in_child=self._close
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
            self._close()
        self._ends.set()
        self._some_wait.set()
        self._thread.join()

    def write(self, line: str) -> bool:
        """Write a line in ASCII, with its end; return whether that was done: not after the block.

        Raises:
            Exception: what waits could not be flushed; then this line was not written.
        """
        with self._lock:
            if not self._is_open:
                return False
            length = len(line)
            if self._size + length > PIECE:
                self._flush()
            self.stream.write(line)
            if not self._size:
                self._some_wait.set()
            self._size += length
        return True

    def _flush(self) -> None:
        with self._lock:
            if self._is_open:
                self._size = 0
                self.stream.flush()

    def _begin_fork(self) -> None:
        self._lock.acquire()  # logging gives the child another
        self._flush()

    def _flush_in_time(self) -> None:
        while self._some_wait.wait():
            self._some_wait.clear()  # first: nothing that is set from here on is overlooked
            if self._ends.wait(DELAY):
                return
            with contextlib.suppress(OSError, ValueError):  # the next line tells
                self._flush()

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(OSError, ValueError):
                self._set_modes(*self._was)

    def _set_modes(self, line_buffering: bool, write_through: bool) -> None:
        """Say when the stream flushes by itself; this flushes it."""
        self.stream.reconfigure(line_buffering=line_buffering, write_through=write_through)
