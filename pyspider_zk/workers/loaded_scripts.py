"""Loaded scripts of a processor: those of deleted projects go, others follow what they import."""

import linecache
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspider.libs.utils import text
from pyspider.processor.project_module import ProjectFinder, ProjectManager, forget_imported

from pyspider_zk.databases.guarded import guarded
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.cache import ProjectCache

logger = logging.getLogger("processor")

AGAIN = 0.1
"""Seconds until an unavailable database is tried again."""

LOOK = 1.0
"""Seconds between two looks at imported projects at least."""

LOOKING = 0.02
"""Share of a processor's time that looking may take: many imported projects are read less often."""

PRUNING = 10.0
"""Seconds between two searches for scripts of deleted projects."""


class ScriptEnded(Exception):
    """What a script did at its top would have ended the process."""


class ExistingProjects(ProjectManager):
    """pyspider's project manager; stock keeps running a deleted project's script forever.

    What a script does at its top has the time limit of scripts from ``limited`` in ``env``, a
    function of seconds; waiting for the database has none. Threads: one.

    Attributes:
        has_given_up: whether a script was not to be had, as this process ends.
    """

    def __init__(
        self, projectdb: Any, env: Any, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(guarded(projectdb, "projectdb", clock), env)
        self.last_check_projects: float
        self._limited: Callable[[float], object] = env.get("limited", bool)
        self._limit: float = env.get("process_time_limit", 0)
        self._clock = clock
        self._existing = ProjectCache(self.projectdb, clock=clock)
        self._imported = ImportedProjects(clock)
        self._ended = threading.Event()
        self.has_given_up = False
        self._pruned = clock()

    def get(
        self, project_name: str, updatetime: float | None = None, md5sum: str | None = None
    ) -> Any:
        """Return a project's script, loaded; None if there is no such project.

        Blocks while the project database is unavailable and the script in memory is outdated.

        Raises:
            DatabaseAway: it is still away, and this process ends.
        """
        if project_name not in self._existing:
            self._forget(project_name)
            return None
        while True:
            try:
                found = super().get(project_name, updatetime, md5sum)
                self._limited(self._limit)
                return found
            except DatabaseAway:
                if self._is_known(project_name, updatetime, md5sum):
                    return self.projects[project_name]
                if self._ended.wait(AGAIN):
                    self.has_given_up = True
                    raise

    def _check_projects(self) -> None:
        """Forget the scripts that were saved since the last look; their own tasks load them.

        Stock loads them here, in the task of another project, which would fail for their faults.
        """
        began = time.time()
        for row in self.projectdb.check_update(self.last_check_projects, ["name", "updatetime"]):
            known = self.projects.get(row["name"])
            if known is not None and row["updatetime"] != known["info"].get("updatetime"):
                self.projects.pop(row["name"])
        self.last_check_projects = began

    @staticmethod
    def build_module(project: dict[str, Any], env: Any = None) -> Any:
        """Run a script's top; whatever that raises is a fault of the script, no end of the process.

        Signals do not come this way.

        Raises:
            Exception: of the script.
        """
        try:
            return ProjectManager.build_module(project, env)
        except Exception:
            raise
        except BaseException as error:
            raise ScriptEnded(f"it ended with {type(error).__name__}: {error}") from error

    def _load_project(self, project: dict[str, Any]) -> Any:
        self._limited(self._limit)
        try:
            loaded = super()._load_project(project)
        finally:
            self._limited(0)
        self._imported.note(project["name"], project["script"])
        return loaded

    @property
    def is_away(self) -> bool:
        """Whether the project database did not answer when it was asked last."""
        return bool(self.projectdb.is_away)

    def close(self) -> None:
        """Stop waiting for the database; from any thread."""
        self._ended.set()

    def _is_known(self, name: str, updatetime: float | None, md5sum: str | None) -> bool:
        """Return whether the script in memory is the requested version."""
        if name not in self.projects:
            return False
        info = self.projects[name]["info"]
        is_older = bool(updatetime) and updatetime > info.get("updatetime", 0)
        return not is_older and md5sum in (None, "", info.get("md5sum"))

    def drop_outdated(self) -> list[str]:
        """Forget the scripts that import a project which was saved since; return their projects.

        ``get`` loads them anew. The database is asked now and then.
        """
        outdated = self._imported.outdated(self.projectdb)
        for name in outdated:
            logger.info("project %s imports one that was saved; it is loaded anew", name)
            self.projects.pop(name, None)
        return outdated

    def prune(self) -> None:
        """Forget the scripts of deleted projects, now and then."""
        now = self._clock()
        if now - self._pruned < PRUNING or not self.projects:
            return
        self._pruned = now
        for name in self._gone():
            self._forget(name)

    def _gone(self) -> set[str]:
        try:
            there = {row["name"] for row in self.projectdb.get_all(fields=["name"])}
        except DatabaseAway:
            return set()  # it was logged
        except Exception:  # each database has errors of its own
            logger.warning("the project database does not answer", exc_info=True)
            return set()
        return set(self.projects) - there

    def _forget(self, name: str) -> None:
        if self.projects.pop(name, None) is not None:
            logger.info("project %s is gone; its script is forgotten", name)
        self._imported.forget(name)
        sys.modules.pop(f"projects.{name}", None)
        linecache.cache.pop(f"<{name}>", None)


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
        self.forget(name)
        if "projects" in text(script):
            self._known[name] = {**ProjectFinder.imported}

    def forget(self, name: str) -> None:
        """Forget what a project imports."""
        self._known.pop(name, None)

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
