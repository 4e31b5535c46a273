"""A crawl seen from outside: its projects, and what is in pyspider's databases."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin

from pyspider.database import connect_database

from pyspider_zk.demo import handler
from pyspider_zk.demo.site import DemoSite, links
from pyspider_zk.local.plan import Addresses

MOST = 24  # projects beside the home one; more show nothing new
PER_SECOND, AT_ONCE = 60.0, 3.0  # pages of a project, so that a killed fetcher had few on the wire
ACTIVE = 1  # pyspider's taskdb.ACTIVE


def projects_of(site: DemoSite) -> tuple[str, ...]:
    """Return a project for each folder that the start page links to, and the home project."""
    home, found = urljoin(site.start, "."), links(site.start, site.page)
    pages = (link for link in found if link.startswith(home) and link.endswith(".html"))
    folders = Counter(handler.folder_project(page.removeprefix(home)) for page in pages)
    del folders[handler.HOME]
    return (handler.HOME, *(name for name, _ in folders.most_common(MOST)))


def script(start: str, projects: Sequence[str]) -> str:
    """Return the handler script, the same for every project, that knows where it crawls."""
    source = Path(handler.__file__).read_text(encoding="utf-8")
    return f"{source}\n\nSTART = {start!r}\nPROJECTS = {tuple(projects)!r}\n"


@dataclass(frozen=True)
class DemoCrawl:
    """The projects of one crawl in the databases of a cluster; for one thread."""

    projects: Sequence[str]
    taskdb: Any
    projectdb: Any
    resultdb: Any

    @classmethod
    def open(cls, at: Addresses, projects: Sequence[str]) -> Self:
        """Connect to the databases."""
        tasks, rows, results = map(connect_database, (at.taskdb, at.projectdb, at.resultdb))
        return cls(projects, tasks, rows, results)

    def create(self, text: str) -> None:
        """Make the projects, all with this script; none is started yet."""
        row = {"group": "demo", "status": "STOP", "script": text, "updatetime": time.time()}
        speed = {"rate": PER_SECOND, "burst": AT_ONCE}
        for name in self.projects:
            self.projectdb.insert(name, {"name": name, **row, **speed})

    def look(self) -> tuple[int, int]:
        """Return how many pages are done, and how many tasks are not."""
        done = sum(map(self.resultdb.count, self.projects))
        return done, sum(map(self.active, self.projects))

    def active(self, project: str) -> int:
        """Return how many tasks of a project are not done."""
        return int(self.taskdb.status_count(project).get(ACTIVE, 0))

    def next_retry(self) -> float | None:
        """Return in how many seconds the next page is fetched again; None: none waits for that."""
        now = time.time()
        rows = (self.taskdb.load_tasks(ACTIVE, each, fields=["schedule"]) for each in self.projects)
        due = (row["schedule"].get("exetime", 0) for found in rows for row in found)
        return min((moment - now for moment in due if moment > now), default=None)

    def pages(self) -> set[str]:
        """Return the URLs of all results."""
        results = (self.resultdb.select(name, fields=["url"]) for name in self.projects)
        return {row["url"] for found in results for row in found}
