"""Signals that end a component cleanly, or a cluster of one machine."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_signals(reactions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call functions on signals while the block runs, each on a thread of its own.

    Python runs a handler between any two steps of the main thread, which may hold the very lock
    that the function needs. Only the main thread can set handlers; on another one the block just
    runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _handler(end)) for number, end in reactions.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handler(end: Callable[[], None]) -> Callable[..., None]:
    return lambda *_: threading.Thread(target=end, name="signal", daemon=True).start()


class Interrupts:
    """Counter of the signals that end the cluster.

    A plain count, because a signal handler runs between any two steps of the main thread, where
    a lock may be held.
    """

    def __init__(self) -> None:
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether a signal has arrived."""
        return self._count > 0

    @property
    def several(self) -> bool:
        """Whether several signals have arrived: end now."""
        return self._count > 1

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Count a signal; the signal handler."""
        self._count += 1


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count Ctrl-C, SIGTERM and SIGHUP instead of dying from them. Main thread only."""
    counter = Interrupts()
    former = {number: signal.signal(number, counter.note) for number in ENDING_SIGNALS}
    try:
        yield counter
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
