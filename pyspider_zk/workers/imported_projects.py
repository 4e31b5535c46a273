"""Imported projects: which loaded scripts are out of date, as one that they import was saved."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspider.libs.utils import text
from pyspider.processor.project_module import ProjectFinder, forget_imported

from pyspider_zk.errors import DatabaseAway

logger = logging.getLogger("processor")

LOOK = 1.0
"""Seconds between two looks at least."""

LOOKING = 0.02
"""Share of a processor's time that looking may take: many imported projects are read less often."""


class ImportedProjects:
    """Watcher of imported projects.

    A script that names the package ``projects`` goes by all projects that were imported when it was
    loaded: through others, in a cycle and by computed names, too, whether there was such a project
    or not. So it may be loaded anew without need, and never too seldom.

    Threads: one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = float("-inf")
        self._known: dict[str, Mapping[str, Any]] = {}  # scripts by importing and imported project

    def note(self, name: str, script: str | bytes) -> None:
        """Note that a project was loaded, and with it what it imports."""
        self._known.pop(name, None)
        if "projects" in text(script):
            self._known[name] = {**ProjectFinder.imported}

    def outdated(self, projectdb: Any) -> list[str]:
        """Return which loaded projects go by an older script than that in the database.

        It looks now and then. What they import is found anew afterwards.
        """
        began = self._clock()
        if began < self._due or not self._known:
            return []
        found = self._outdated(projectdb)
        now = self._clock()
        self._due = now + max(LOOK, (now - began) / LOOKING)
        return found

    def _outdated(self, projectdb: Any) -> list[str]:
        names = {name for known in self._known.values() for name in known}
        try:
            current = {name: _script(projectdb, name) for name in names | {*ProjectFinder.imported}}
        except DatabaseAway:
            return []  # it was logged
        except Exception:  # each database has errors of its own
            logger.warning("the project database does not answer", exc_info=True)
            return []
        if any(current[name] != script for name, script in {**ProjectFinder.imported}.items()):
            forget_imported()
        return [
            importing
            for importing, known in self._known.items()
            if any(current[name] != script for name, script in known.items())
        ]


def _script(projectdb: Any, name: str) -> Any:
    row = projectdb.get(name, fields=["script"])
    return row and row["script"]
