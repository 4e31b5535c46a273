"""Project cache: whether a project still exists, for those who hold messages of deleted ones."""

import logging
import time
from collections.abc import Callable
from typing import Any

from pyspider_zk.databases.guarded import guarded
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.outage import Outage

logger = logging.getLogger(__name__)

FRESH = 0.5
"""Seconds for which an answer serves."""


class ProjectCache:
    """Asks the project database, twice per project and second at most.

    Only what is known to be gone is skipped: every project exists while the database does not
    answer, or never had a single project. Then it is another one than the schedulers have.

    Threads: one.
    """

    def __init__(
        self,
        projectdb: Any,
        fresh: float = FRESH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._projectdb = guarded(projectdb, "projectdb", clock)
        self._fresh = fresh
        self._clock = clock
        self._known: dict[str, bool] = {}
        self._since = clock()
        self._outage = Outage(
            logger,
            "the project database does not answer: %r",
            "the project database answers again",
        )
        self._had_any = False

    def __contains__(self, project: str) -> bool:
        now = self._clock()
        if now - self._since >= self._fresh:
            self._known, self._since = {}, now
        if project not in self._known:
            self._known[project] = self._ask(project)
        return self._known[project]

    def _ask(self, project: str) -> bool:
        try:
            found = bool(self._projectdb.get(project, fields=["name"]))
            self._had_any = self._had_any or found or self._has_any()
        except DatabaseAway:
            return True  # it was logged
        except Exception as error:  # each database has errors of its own
            self._outage.failed(error)
            return True
        self._outage.answered()
        return found or not self._had_any

    def _has_any(self) -> bool:
        return any(True for _ in self._projectdb.get_all(fields=["name"]))
