"""Agenda: when each project is to be looked at again, so that the others cost nothing.

Threads: one.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

from pyspider_zk.errors import ClusterError
from pyspider_zk.pauses import pause_after

logger = logging.getLogger("scheduler")

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


PAUSES = (1.0, 5.0, 15.0, 60.0)
"""Seconds after each failure until the next try; the last one repeats."""

MOST_PREVENTED = 20
"""Checks that a database or the fence prevents, in one call: in an outage all of them may be."""


@dataclass
class _Item:
    due: float
    failures: int = 0


class RetryQueue:
    """Projects to check again, each at its time.

    A project that fails stays, and is tried again after longer and longer pauses: a database that
    is locked for a moment loses no project, and a project that always fails blocks no other.

    Threads: one.

    Args:
        act: checks one project.
    """

    def __init__(self, act: Callable[[str], object]) -> None:
        self._act = act
        self._items: dict[str, _Item] = {}
        self._agenda = Agenda()

    def put(self, project: str) -> None:
        """Add a project to be checked now; one that failed starts again, others keep their turn."""
        before = self._items.get(project)
        due = before.due if before and not before.failures else float("-inf")
        self._items[project] = _Item(due)
        self._agenda.at(project, due)

    def drop(self, project: str) -> None:
        """Remove a project, if it is in the queue."""
        self._items.pop(project, None)
        self._agenda.drop(project)

    def names(self) -> list[str]:
        """Return the projects in the queue."""
        return list(self._items)

    def work(self, now: float, only: Collection[str] | None = None) -> None:
        """Check the projects that are due; one that fails is left to a later call.

        Once ``MOST_PREVENTED`` were prevented the others are left to the next call, and come before
        those then.

        Args:
            only: those to look for; None for all.

        Raises:
            ClusterError: the first from ``act``; it is no failure of the project, which stays due.
        """
        names = iter(self._agenda.take(now, only))
        errors = filter(None, (self._try(name, now) for name in names))
        prevented = list(islice(errors, MOST_PREVENTED))
        for name in names:
            self._enter(name)
        if prevented:
            raise prevented[0]

    def _try(self, name: str, now: float) -> ClusterError | None:
        """Check a project, if it is still in the queue; return what is no failure of its own."""
        item = self._items.get(name)
        if item is None:
            return None
        try:
            self._act(name)
            if self._items.get(name) is item:
                del self._items[name]
        except ClusterError as error:
            item.due = now  # those that were not tried yet are due since before
            return error
        except Exception:  # each database has its own errors
            logger.exception("project %s: it will be tried again", name)
            item.failures += 1
            item.due = now + pause_after(item.failures, PAUSES)
        finally:
            self._enter(name)
        return None

    def _enter(self, name: str) -> None:
        if name in self._items:
            self._agenda.at(name, self._items[name].due)
