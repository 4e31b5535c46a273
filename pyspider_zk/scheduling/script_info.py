"""Requests for a script's settings, repeated if no answer comes.

No task of a project is selected before its script has sent its tick and its ``crawl_config``. The
request goes through fetcher and processor like a page, and like a page it can be lost.
"""

import time
from collections.abc import Callable, Collection

from pyspider_zk.pauses import pause_after

PAUSES = (60.0, 120.0, 300.0, 600.0)
"""Seconds until a request is repeated; the last one repeats."""

LOOK = 1.0
"""Seconds between two checks which projects wait."""


class InfoRequests:
    """Requests for settings: the projects that wait, and when the request of each is repeated.

    Threads: the scheduler loop only.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, tuple[float, int]] = {}
        self._next_look = float("-inf")

    def is_time(self) -> bool:
        """Return whether it is time to check which projects wait; if so, count it as checked."""
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK
        return True

    def due(self, waiting: Collection[str]) -> list[str]:
        """Return the projects whose request is due again, and count it as sent.

        The request of a newly waiting project has just been sent: pyspider sends it when it loads a
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
