"""Project database of the web UI: pyspider's, with rows that can always be shown."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

from pyspider_zk.projects.rows import shown

logger = logging.getLogger(__name__)


class ShownProjects:
    """A project database whose answers have the types that pages and API expect.

    One row that was not written by pyspider's editor would fail every page that lists projects.

    Threads: any; each has its own copy of the database, if the database can be copied.
    """

    def __init__(self, projectdb: Any) -> None:
        self._original = projectdb
        self._local = threading.local()
        self._said = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database(), name)

    def get_all(self, fields: Any = None) -> Iterator[dict[str, Any]]:
        """Yield all projects; rows without a name are left out, which is logged once."""
        for row in self._database().get_all(fields=fields):
            found = shown(row)
            if found is not None:
                yield found
            elif not self._said:
                self._said = True
                logger.warning("a row of the project database has no name: delete it")

    def get(self, name: str, fields: Any = None) -> dict[str, Any] | None:
        """Return a project, None if there is none of that name."""
        row = self._database().get(name, fields=fields)
        return shown(row) if row else None

    def copy(self) -> "ShownProjects":
        """Return another one."""
        return ShownProjects(self._original)

    def _database(self) -> Any:
        if not hasattr(self._local, "database"):
            copied = getattr(self._original, "copy", None)
            self._local.database = copied() if copied else self._original
        return self._local.database
