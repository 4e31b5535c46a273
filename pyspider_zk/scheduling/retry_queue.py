"""Retry queue with back-off."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyspider_zk.errors import ClusterError
from pyspider_zk.pauses import pause_after
from pyspider_zk.scheduling.agenda import Agenda

logger = logging.getLogger("scheduler")

PAUSES = (1.0, 5.0, 15.0, 60.0)
"""Seconds after each failure until the next try; the last one repeats."""


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

    def put(self, project: str, due: float) -> None:
        """Add a project; one that is already in the queue starts again."""
        self._items[project] = _Item(due)
        self._agenda.at(project, due)

    def drop(self, project: str) -> None:
        """Remove a project, if it is in the queue."""
        self._items.pop(project, None)
        self._agenda.drop(project)

    def names(self) -> list[str]:
        """Return the projects in the queue."""
        return list(self._items)

    def is_due(self, now: float) -> bool:
        """Return whether any project may be due; False is certain."""
        return self._agenda.is_due(now)

    def work(self, now: float) -> None:
        """Check the projects that are due; one that fails is left to a later call.

        Raises:
            ClusterError: from ``act``; it is no failure of the project, which stays due.
        """
        due = self._agenda.take(now)
        try:
            for name in due:
                item = self._items.get(name)
                if item is not None:
                    self._try(name, item, now)
        finally:
            for name in due:
                if name in self._items:
                    self._agenda.at(name, self._items[name].due)

    def _try(self, name: str, item: _Item, now: float) -> None:
        try:
            self._act(name)
        except ClusterError:
            raise
        except Exception:  # each database has its own errors
            logger.exception("project %s: it will be tried again", name)
            item.failures += 1
            item.due = now + pause_after(item.failures, PAUSES)
            return
        if self._items.get(name) is item:
            del self._items[name]
