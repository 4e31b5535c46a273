"""The site that is crawled, the projects that crawl it, and the log of every request."""

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.recorder import Recorder
from tests.support.chain_site import Site, SiteAnswer

_SCRIPT = """
from pyspider.libs.base_handler import BaseHandler, every

class Handler(BaseHandler):
    crawl_config = {{"headers": {{"X-Project": "{name}"}}, "retries": 20}}
    retry_delay = {{0: 1, "": 2}}

    def on_start(self):
        self.crawl("{site}/{graph}/0", callback=self.page)

    def page(self, response):
        for link in response.json["links"]:
            self.crawl("{site}/{graph}/%d" % link, callback=self.page)
        return {{"url": response.url}}
{cron}
"""
_CRON = """
    @every(seconds={every})
    def tick(self, response):
        self.crawl("{site}/tick/%d" % response.save["tick"], callback=self.ticked)

    def ticked(self, response):
        return {{"url": response.url}}
"""


_FAILING_SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    crawl_config = {{"headers": {{"X-Project": "{name}"}}, "retries": 0}}

    def on_start(self):
        for page in range(60):
            self.crawl("{site}/failing/%d" % page, callback=self.page)

    def page(self, response):
        raise ValueError("every page fails")
"""

LINKED = "g4"
"""The graph whose pages have several referrers."""

FAILING = "failing"
"""The graph of the projects that are paused."""


@dataclass(frozen=True)
class SiteProject:
    """A project: which graph it crawls, how fast, and how often its callback is due.

    Attributes:
        graph: projects of one graph share their URLs.
        every: seconds between two ticks; 0: it has none.
    """

    name: str
    graph: str
    rate: float
    every: int = 0

    def script(self, site: str) -> str:
        """Return what pyspider runs."""
        if self.graph == FAILING:
            return _FAILING_SCRIPT.format(name=self.name, site=site)
        cron = _CRON.format(every=self.every, site=site) if self.every else ""
        return _SCRIPT.format(name=self.name, site=site, graph=self.graph, cron=cron)


def projects(rate: float = 2.0) -> list[SiteProject]:
    """Return the projects of a run: each graph is shared by three, and every other one ticks."""
    return [
        SiteProject(f"chaos{n}", f"g{n // 3}", rate, every=(2, 3, 5)[n // 2 % 3] if n % 2 else 0)
        for n in range(15)
    ]


def failing(rate: float = 10.0) -> list[SiteProject]:
    """Return projects whose every page fails, so that pyspider pauses them."""
    return [SiteProject(f"failing{n}", FAILING, rate) for n in range(3)]


def latency(page: int) -> float:
    """Return how many seconds a page takes: most are quick, some outlive a move or a takeover."""
    return 3.0 if page % 23 == 5 else 0.1 * (page % 5)


def links(graph: str, page: int, pages: int) -> list[int]:
    """Return the pages that a page links to: its children in a tree, and one that is known already.

    Each page has one referrer that can find it, so a task that is lost stays lost: the link more
    is back to the page's own parent. Only the last graph has links to anywhere in their place.
    """
    children = [each for each in (2 * page + 1, 2 * page + 2) if each < pages]
    more = (7 * page + 3) % pages if graph == LINKED else max(0, (page - 1) // 2)
    return sorted({*children, more})


class GraphSite(Site):
    """Serves ``/<graph>/<page>``, ``/tick/<n>`` and ``/failing/<n>``.

    Threads: the server's own write the log; ``served`` may be read from any.
    """

    def __init__(self, address: str, pages: int, log: Path) -> None:
        self.served = 0
        self._log = Recorder(log)
        self._lock = threading.Lock()
        super().__init__(_pages(self, pages), address)

    def note(self, project: str, path: str) -> None:
        """Write a request down."""
        self._log.note("request", project=project, path=path)
        with self._lock:
            self.served += 1


def _pages(site: GraphSite, pages: int) -> type[SiteAnswer]:
    class GraphPage(SiteAnswer):
        def get(self) -> None:
            site.note(self.headers.get("X-Project", ""), self.path)
            graph, page = self.path.strip("/").split("/")
            time.sleep(latency(int(page)) if graph.startswith("g") else 0)
            found = links(graph, int(page), pages) if graph.startswith("g") else []
            self.say(json.dumps({"links": found}).encode())

    return GraphPage
