"""Pace of a loop's rounds: when the next one begins, how long to rest, and how long each took."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspider_zk.metrics.families import ROUNDS


class RoundPace:
    """Pace of the rounds of one loop.

    A whole round begins every interval, and at once if the one before left work, or somebody
    hurries. In between, a loop that is woken by messages does a small round for them alone.

    Before or after a small round the loop rests, as long as the round takes: so at most half of the
    time goes into them, and messages gather, of which each then costs less.

    Threads: ``wake`` and ``hurry`` may be called from any and never block; the others belong to the
    loop.

    Args:
        interval: returns the seconds between two whole rounds.
        clock: seconds.
        woken: is waited for.
        sleep: what is not woken.
    """

    def __init__(
        self,
        interval: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        woken: threading.Event | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._woken = woken or threading.Event()
        self._sleep = sleep
        self._is_urgent = threading.Event()
        self._due = float("-inf")
        self._rested = 0.0  # seconds before the current round

    def wake(self) -> None:
        """Request a round."""
        self._woken.set()

    def hurry(self) -> None:
        """Request a whole round."""
        self._is_urgent.set()
        self._woken.set()

    def await_round(self, *, is_busy: bool, may_find_more: bool) -> bool:
        """Wait until a round is to begin; return whether it is a whole one.

        Args:
            is_busy: the round before left work, so a whole one follows at once.
            may_find_more: it left messages, so another one of whatever kind follows at once.
        """
        began = self._clock()
        if not is_busy and not may_find_more:
            self._woken.wait(max(0.0, self._due - began))
        now = self._clock()
        self._rested = now - began
        self._woken.clear()
        return is_busy or now >= self._due or self._is_urgent.is_set()

    @contextmanager
    def whole_round(self) -> Iterator[None]:
        """Context manager for a whole round; the next one is due an interval after its end."""
        self._is_urgent.clear()
        try:
            yield
        finally:
            self._due = self._clock() + self._interval()

    @contextmanager
    def small_round(self, is_left: Callable[[], bool]) -> Iterator[None]:
        """Context manager for a small round; then the loop rests, as far as it has not before.

        Args:
            is_left: returns whether some messages are left; then there is no rest.
        """
        began = self._clock()
        yield
        if not is_left():
            taken = min(self._clock() - began, self._interval())
            self._sleep(max(0.0, taken - self._rested))

    def pause(self, seconds: float) -> None:
        """Rest after a failure, unless somebody requests a round meanwhile."""
        self._woken.wait(seconds)


class RoundTimes:
    """How long rounds take, and how many failed. Threads: the loop writes, any may read.

    Attributes:
        histogram: of all rounds, also of failed ones.
        whole, arrivals: its parts, for whole rounds and for those for new messages alone.
        failures: how many an unexpected error ended.
    """

    def __init__(self) -> None:
        self.histogram = ROUNDS.histogram()
        self.failures = 0
        self.whole = self.histogram.labels("whole")
        self.arrivals = self.histogram.labels("arrivals")
