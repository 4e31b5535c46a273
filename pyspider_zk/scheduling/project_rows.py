"""Rows of the project database: which of them changed since the last read."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.index import FIELDS, Changes, ProjectIndex
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.heartbeat import ROWS_PER_BEAT

logger = logging.getLogger("scheduler")

LOOKING = 0.004
"""Share of the loop's time that reading all projects may take: many are read less often."""

MOST = 300.0
"""Seconds until the next read at most, as pyspider's: a database that hung once tells nothing."""

NO_CHANGES = Changes(set(), set())


class ProjectRows:
    """Reader of the short columns of all projects, from time to time or on request.

    Threads: the scheduler loop only. The constructor does no I/O.

    Args:
        beat: shows that the loop runs.

    Attributes:
        index: what the last read found.
    """

    def __init__(self, engine: TaskEngine, slots: int, beat: Callable[[], None]) -> None:
        self.index = ProjectIndex(slots)
        self._engine = engine
        self._beat = beat
        self._is_soon = False
        self._due = float("-inf")  # on the clock that nobody sets
        self._version: object = None  # of what the last read found, if that is known

    def look_soon(self) -> None:
        """Read the rows again in the next round."""
        self._is_soon = True

    def changes(self) -> Changes:
        """Return what changed since the last read; nothing if it is not time for the next one.

        Raises:
            DatabaseAway: the project database is away; the next call reads again.
        """
        if time.monotonic() < self._due and not self._is_soon:
            return NO_CHANGES
        self._is_soon = False
        began = time.monotonic()
        try:
            changes = self._read()
        except DatabaseAway:
            self._is_soon = True
            raise
        except Exception:  # each database has errors of its own
            logger.exception("the projects could not be read; they will be read again")
            self._due = began + self._engine.UPDATE_PROJECT_INTERVAL
            return NO_CHANGES
        now = time.monotonic()
        pause = min((now - began) / LOOKING, MOST)
        self._due = now + max(self._engine.UPDATE_PROJECT_INTERVAL, pause)
        return changes

    def _read(self) -> Changes:
        """Return what changed, without reading the rows if nobody has changed any."""
        projectdb = self._engine.projectdb
        # Asked before they are read, so that a change meanwhile is seen by the next read.
        version = projectdb.file_version() if hasattr(projectdb, "file_version") else None
        if version is not None and version == self._version:
            return NO_CHANGES
        changes = self.index.refresh(self._rows())
        self._version = version
        return changes

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Yield the short columns of all projects, with signs of life in between."""
        for count, row in enumerate(self._engine.projectdb.get_all(fields=FIELDS)):
            if count % ROWS_PER_BEAT == 0:
                self._beat()
            yield row
