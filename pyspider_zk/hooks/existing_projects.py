"""The scripts that a processor has in memory: none of a project that is gone."""

import linecache
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspider.processor.project_module import ProjectManager

from pyspider_zk.hooks.existing import Existing

logger = logging.getLogger("processor")

TIDYING = 10.0
"""Seconds between two looks for scripts of projects that are gone."""


class ExistingProjects(ProjectManager):
    """pyspider's project manager, which by itself runs a deleted project's script for ever.

    Threads: one.
    """

    def __init__(
        self, projectdb: Any, env: Any, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(projectdb, env)
        self._clock = clock
        self._existing = Existing(projectdb, clock=clock)
        self._tidied = clock()

    def get(
        self, project_name: str, updatetime: float | None = None, md5sum: str | None = None
    ) -> Any:
        """Return a project's script, loaded; None if there is no such project."""
        if project_name not in self._existing:
            self._forget(project_name)
            return None
        return super().get(project_name, updatetime, md5sum)

    def tidy(self) -> None:
        """Forget the scripts of projects that are gone, now and then."""
        now = self._clock()
        if now - self._tidied < TIDYING or not self.projects:
            return
        self._tidied = now
        for name in self._gone():
            self._forget(name)

    def _gone(self) -> set[str]:
        try:
            there = {row["name"] for row in self.projectdb.get_all(fields=["name"])}
        except Exception:  # each database has errors of its own
            logger.warning("the project database does not answer", exc_info=True)
            return set()
        return set(self.projects) - there

    def _forget(self, name: str) -> None:
        if self.projects.pop(name, None) is not None:
            logger.info("project %s is gone; its script is forgotten", name)
        sys.modules.pop(f"projects.{name}", None)
        linecache.cache.pop(f"<{name}>", None)


class Tidied:
    """A queue, whose reader calls a function before it waits."""

    def __init__(self, inner: Any, before: Callable[[], None]) -> None:
        self._inner = inner
        self._before = before

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest message; see ``queue.Queue.get``."""
        self._before()
        return self._inner.get(block, timeout)
