"""A crawl seen from outside: what is in pyspider's databases and queues."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from pyspider.database import connect_database
from pyspider.message_queue import connect_message_queue

from pyspider_zk.demo.handlers import docs
from pyspider_zk.demo.site import DemoSite
from pyspider_zk.demo.walk import links
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect

MOST = 24  # projects beside the home one; more show nothing new
PER_SECOND = 200.0  # a loopback site needs no mercy
ACTIVE = 1  # pyspider's taskdb.ACTIVE
STOCK_QUEUES = ("scheduler2fetcher", "fetcher2processor", "processor2result")


def projects_of(site: DemoSite) -> tuple[str, ...]:
    """Return a project for each folder that the start page links to, and the home project."""
    home, found = urljoin(site.start, "."), links(site.start, site.page)
    pages = (link for link in found if link.startswith(home) and link.endswith(".html"))
    folders = Counter(docs.folder_project(page.removeprefix(home)) for page in pages)
    del folders[docs.HOME]
    return (docs.HOME, *(name for name, _ in folders.most_common(MOST)))


def script(start: str, projects: Sequence[str]) -> str:
    """Return the handler script, the same for every project, that knows where it crawls."""
    source = Path(docs.__file__).read_text(encoding="utf-8")
    return f"{source}\n\nSTART = {start!r}\nPROJECTS = {tuple(projects)!r}\n"


class Seen(NamedTuple):
    """How far a crawl is: results, tasks that the database calls active, messages in queues."""

    done: int
    tasks: int
    messages: int


@dataclass(frozen=True)
class DemoCrawl:
    """The projects of one crawl in the databases and queues of a cluster; for one thread."""

    projects: Sequence[str]
    taskdb: Any
    projectdb: Any
    resultdb: Any
    queues: Queues
    stock: Sequence[Any]

    def create(self, text: str) -> None:
        """Make the projects, all with this script; none is started yet."""
        row = {"group": "demo", "status": "STOP", "script": text, "updatetime": time.time()}
        speed = {"rate": PER_SECOND, "burst": PER_SECOND}
        for name in self.projects:
            self.projectdb.insert(name, {"name": name, **row, **speed})

    def look(self) -> Seen:
        """Return how far it is."""
        ours = (self.queues.slot_queues.lengths(), self.queues.inbox.lengths())
        return Seen(
            sum(map(self.resultdb.count, self.projects)),
            sum(map(self.active, self.projects)),
            sum(sum(each.values()) for each in ours) + sum(each.qsize() for each in self.stock),
        )

    def active(self, project: str) -> int:
        """Return how many tasks of a project are not done."""
        return int(self.taskdb.status_count(project).get(ACTIVE, 0))

    def pages(self) -> set[str]:
        """Return the URLs of all results."""
        results = (self.resultdb.select(project, fields=["url"]) for project in self.projects)
        return {row["url"] for found in results for row in found}


@contextmanager
def opened(cluster: LocalCluster, projects: Sequence[str]) -> Iterator[DemoCrawl]:
    """Open the databases and queues of a cluster that runs."""
    at = cluster.addresses
    tasks, rows, results = map(connect_database, (at.taskdb, at.projectdb, at.resultdb))
    stock = [connect_message_queue(name, at.message_queue) for name in STOCK_QUEUES]
    with closing(connect(at.message_queue, 0, cluster.settings.slots)) as queues:
        yield DemoCrawl(projects, tasks, rows, results, queues, stock)
