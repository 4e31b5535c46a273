"""Requests for a script's settings, repeated if no answer comes.

A project is not selected from before its script has sent its tick and its ``crawl_config``. The
request goes through fetcher and processor like a page, and like a page it can be lost.
"""

import time
from collections.abc import Callable, Collection

from pyspider_zk.pauses import pause_after

PAUSES = (60.0, 120.0, 300.0, 600.0)
"""Seconds until a request is repeated; the last one again and again."""

LOOK = 1.0
"""Seconds between two looks at who waits."""


class InfoRequests:
    """Which projects wait for an answer, and when the request of each is repeated.

    Threads: the scheduler loop only.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, tuple[float, int]] = {}
        self._next_look = float("-inf")

    def is_time(self) -> bool:
        """Tell whether it is time for a look at who waits, and count it as taken."""
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK
        return True

    def due(self, waiting: Collection[str]) -> list[str]:
        """Return the projects whose request is due again, and count it as sent.

        One that waits newly has got its request just now: pyspider sends it when it loads a
        project, and when a script changes.

        Args:
            waiting: all projects that wait for an answer.
        """
        now = self._clock()
        for project in self._sent.keys() - set(waiting):
            del self._sent[project]
        for project in waiting:
            self._sent.setdefault(project, (now, 0))
        late = [project for project in waiting if self._is_late(project, now)]
        for project in late:
            self._sent[project] = (now, self._sent[project][1] + 1)
        return late

    def _is_late(self, project: str, now: float) -> bool:
        sent, times = self._sent[project]
        return now - sent >= pause_after(times + 1, PAUSES)
