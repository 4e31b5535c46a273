"""Agenda: when each project is to be looked at again, so that the others cost nothing.

Threads: one.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection

AT_ONCE, NEVER = float("-inf"), float("inf")

SPARE = 64
"""Entries that are kept beside as many as there are projects, before the outdated ones go."""


class Agenda:
    """Projects, each with the time of its next look, on a clock of the caller's.

    Threads: one. Each call takes time by what is due and by the logarithm of the others.
    """

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._due)

    def at(self, project: str, due: float) -> None:
        """Look at a project at that time, in place of any other."""
        if self._due.get(project) == due:
            return
        if due == NEVER:
            self.drop(project)
            return
        self._due[project] = due
        heapq.heappush(self._heap, (due, project))
        if len(self._heap) > 2 * len(self._due) + SPARE:
            self._heap = [(due, name) for name, due in self._due.items()]
            heapq.heapify(self._heap)

    def now(self, project: str) -> None:
        """Look at a project as soon as possible."""
        self.at(project, AT_ONCE)

    def drop(self, project: str) -> None:
        """Do not look at a project, unless it is entered again."""
        self._due.pop(project, None)

    def is_due(self, now: float) -> bool:
        """Return whether there may be a project to look at by now."""
        return bool(self._heap) and self._heap[0][0] <= now

    def take(self, now: float, only: Collection[str] | None = None) -> list[str]:
        """Return the projects to look at by now, and forget their times.

        Args:
            only: those to look for; None for all.
        """
        if only is not None:
            due = [project for project in only if self._due.get(project, NEVER) <= now]
            for project in due:
                del self._due[project]
            return due
        due = []
        while self._heap and self._heap[0][0] <= now:
            when, project = heapq.heappop(self._heap)
            if self._due.get(project) == when:
                del self._due[project]
                due.append(project)
        return due

    def work(
        self, now: float, act: Callable[[str], object], only: Collection[str] | None = None
    ) -> None:
        """Act on each project to look at by now; if that raises, it stays due, as those behind it.

        Args:
            only: see ``take``.
        """
        due = deque(self.take(now, only))
        try:
            while due:
                act(due[0])
                due.popleft()
        finally:
            for project in due:
                self.now(project)
