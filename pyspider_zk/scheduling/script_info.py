"""Questions to scripts about themselves, asked again if no answer comes.

A project is not selected from before its script has told its tick and its ``crawl_config``. The
question goes through fetcher and processor like a page, and like a page it can be lost.
"""

import time
from collections.abc import Callable, Collection

from pyspider_zk.pauses import pause_after

PAUSES = (60.0, 120.0, 300.0, 600.0)
"""Seconds until a question is asked again; the last one again and again."""

LOOK = 1.0
"""Seconds between two looks at who waits."""


class Questions:
    """Which projects wait for an answer, and when each is asked again.

    Threads: the scheduler loop only.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[str, tuple[float, int]] = {}
        self._next_look = float("-inf")

    def is_time(self) -> bool:
        """Tell whether it is time for a look at who waits, and count it as taken."""
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK
        return True

    def due(self, waiting: Collection[str]) -> list[str]:
        """Return the projects to ask again now, and count them as asked.

        One that waits newly was asked just now: pyspider asks when it loads a project, and when
        a script changes.

        Args:
            waiting: all projects that wait for an answer.
        """
        now = self._clock()
        for project in self._asked.keys() - set(waiting):
            del self._asked[project]
        for project in waiting:
            self._asked.setdefault(project, (now, 0))
        late = [project for project in waiting if self._is_late(project, now)]
        for project in late:
            self._asked[project] = (now, self._asked[project][1] + 1)
        return late

    def _is_late(self, project: str, now: float) -> bool:
        asked, times = self._asked[project]
        return now - asked >= pause_after(times + 1, PAUSES)
