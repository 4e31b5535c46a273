"""What goes on until Ctrl-C: `status --watch`, `events --follow`, `logs --follow`."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspider_zk.components.signals import on_signals
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.terminal import say


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """Give the event that Ctrl-C sets; what fails after it is of no interest.

    kazoo mistakes an interruption in the middle of a request for a lost session.
    """
    ends = threading.Event()
    with on_signals({signal.SIGINT: ends.set}):
        try:
            yield ends
        except ClusterError:
            if not ends.is_set():
                raise


def complain(error: Unavailable) -> None:
    """Tell on stderr why there is nothing to see."""
    say(str(error), err=True)


def keep_looking(
    look: Callable[[], object],
    ends: threading.Event,
    every: float,
    tell: Callable[[Unavailable], None] = complain,
) -> None:
    """Look again and again until Ctrl-C. An outage is told once, and waited for.

    Args:
        look: shows what there is by now; returns whether there is more.
        every: seconds before a look if there was no more at the last one.
        tell: shows why there is nothing to see.
    """
    more, lasts = False, False
    while not ends.wait(0 if more else every):
        try:
            more, lasts = bool(look()), False
        except Unavailable as error:
            if not lasts and not ends.is_set():
                tell(error)
            more, lasts = False, True
