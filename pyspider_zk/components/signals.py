"""Signals that end a component cleanly."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


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
