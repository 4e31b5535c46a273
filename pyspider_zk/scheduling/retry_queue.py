"""Retry queue with back-off."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyspider_zk.errors import ClusterError
from pyspider_zk.pauses import pause_after

logger = logging.getLogger("scheduler")

PAUSES = (1.0, 5.0, 15.0, 60.0)
"""Seconds after each failure until the next try; the last one again and again."""


@dataclass
class _Item:
    due: float
    failures: int = 0


class RetryQueue:
    """Projects to do something about, each at its time.

    What fails stays, and is tried again later and later: a database that was locked for a moment
    leaves no project out, and one project that always fails holds up no other.

    Threads: one.

    Args:
        act: does it to one project.
    """

    def __init__(self, act: Callable[[str], object]) -> None:
        self._act = act
        self._items: dict[str, _Item] = {}

    def put(self, project: str, due: float) -> None:
        """Note a project; one that is noted already begins anew."""
        self._items[project] = _Item(due)

    def drop(self, project: str) -> None:
        """Strike a project out, if it is noted."""
        self._items.pop(project, None)

    def names(self) -> list[str]:
        """Return the projects that are noted."""
        return list(self._items)

    def is_due(self, now: float) -> bool:
        """Tell whether there is anything to do."""
        return any(item.due <= now for item in self._items.values())

    def work(self, now: float) -> None:
        """Do what is due; what fails is for a later call, and holds up nothing else.

        Raises:
            ClusterError: from ``act``; that is no failure of the project, and stays due.
        """
        due = [(item.due, name) for name, item in self._items.items() if item.due <= now]
        for _, name in sorted(due):
            item = self._items.get(name)
            if item is not None:
                self._try(name, item, now)

    def _try(self, name: str, item: _Item, now: float) -> None:
        try:
            self._act(name)
        except ClusterError:
            raise
        except Exception:  # each database has errors of its own
            logger.exception("project %s: will be looked at again", name)
            item.failures += 1
            item.due = now + pause_after(item.failures, PAUSES)
            return
        if self._items.get(name) is item:
            del self._items[name]
