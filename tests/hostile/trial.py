"""The trial: a healthy project alone, and again beside one that crawls the hostile site.

Works on any cluster whose databases and settings are at hand.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

from pyspider_zk.client import Client
from pyspider_zk.config import Settings
from pyspider_zk.demo.crawl import DemoCrawl
from tests.hostile.kinds import LATE, SUCCESS, HostileKind

USUAL, BESIDE, HOSTILE = "usual", "beside", "hostile"
RATE = 10.0  # pages a second and project
MOST_SLOWDOWN = 2.0
STALLS = 30.0  # seconds besides: the rate decides how long it takes alone, a busy machine does not
SHORT, LONG = 5.0, 30.0  # seconds for a page
PATIENCE = 60.0  # seconds until an operation is done
STALL = 60.0  # seconds without any change

_HEALTHY = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    retry_delay = {{0: 1, "": 2}}

    def on_start(self):
        self.crawl("{url}", callback=self.page)

    def page(self, response):
        for link in response.doc("a").items():
            self.crawl(link.attr.href, callback=self.page)
        return {{"title": response.doc("title").text()}}
"""

_HOSTILE = """
import itertools
from pyspider.libs.base_handler import BaseHandler

PAGES = {pages!r}

class Handler(BaseHandler):
    crawl_config = {{"retries": 0}}

    def on_start(self):
        for number, (taskid, url, timeout, robots_txt) in enumerate(PAGES):
            self.crawl(url, callback=self.page, taskid=taskid, timeout=timeout,
                       robots_txt=robots_txt, save={{"kind": taskid}})
            # A project whose latest ten pages failed is paused.
            self.crawl("{fine}/%d" % number, callback=self.leaf)

    def page(self, response):
        links = response.doc("a[href]").items()
        for link in itertools.islice(links, 20):
            self.crawl(link.attr.href, callback=self.leaf)
        self.save["latest"] = response.doc("title").text()
        told = response.json if response.json and len(response.text) < 10000 else None
        return {{"kind": response.save["kind"], "title": self.save["latest"], "told": told,
                "text": response.text[:100]}}

    def leaf(self, response):
        return None
"""


@dataclass(frozen=True)
class Trial:
    """A trial on one cluster; for one thread.

    Args:
        settings: with the secrets that let a client in.
        crawl: of the three projects, in the cluster's databases.
        healthy: URL of the healthy site, without a slash at the end.
        sites: URL of each kind.
        kinds: those that are tried.
        pages: how many the healthy project has.
    """

    settings: Settings
    crawl: DemoCrawl
    healthy: str
    sites: Mapping[str, str]
    kinds: Sequence[HostileKind]
    pages: int

    def usual(self) -> float:
        """Crawl the healthy site alone; return the seconds."""
        self._create(USUAL, self._healthy_script(USUAL))
        began = self._start(USUAL)
        self._await_all([USUAL])
        return time.monotonic() - began

    def beside(self) -> float:
        """Crawl it beside the hostile one; return the healthy one's seconds."""
        self._create(BESIDE, self._healthy_script(BESIDE))
        self._create(HOSTILE, self._hostile_script())
        self._start(HOSTILE)
        began = self._start(BESIDE)
        self._await_all([BESIDE])
        taken = time.monotonic() - began
        self._await_all([HOSTILE])
        return taken

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each task that did not end as it must."""
        for kind in self.kinds:
            rows = [self.crawl.taskdb.get_task(HOSTILE, taskid) for taskid in _taskids(kind)]
            if found := [fault for fault in map(kind.ends.fault, rows) if fault]:
                yield f"{kind.name}: {len(found)} of {kind.times} tasks, such as: {found[0]}"
        if not self._await_all([HOSTILE]):  # on_finished is a task, too, and comes last
            yield f"{self.crawl.active(HOSTILE)} tasks of the hostile project never ended"
        for project in (USUAL, BESIDE):
            done, asked = self._done(project), self._asked(project)
            if done != self.pages or asked != [1] * self.pages:
                times = sorted(set(asked))
                yield f"{project}: {done} pages of {self.pages} are done, asked for {times} times"

    def _asked(self, project: str) -> list[int]:
        with urlopen(f"{self.healthy}/asked") as answer:  # noqa: S310 - our own
            asked: dict[str, int] = json.load(answer)
        return [times for path, times in asked.items() if path.startswith(f"/{project}/")]

    def _done(self, project: str) -> int:
        rows = self.crawl.taskdb.load_tasks(SUCCESS, project, fields=["url"])
        return len({row["url"] for row in rows if row["url"].startswith(self.healthy)})

    def _healthy_script(self, project: str) -> str:
        return _HEALTHY.format(url=f"{self.healthy}/healthy/{project}/{self.pages}/0")

    def _hostile_script(self) -> str:
        fine = self.sites[self.kinds[0].name].rpartition("/")[0] + "/fine"
        return _HOSTILE.format(pages=list(self._hostile_pages()), fine=fine)

    def _hostile_pages(self) -> Iterator[tuple[str, str, float, bool]]:
        for kind in self.kinds:
            timeout = SHORT if kind.ends is LATE else LONG
            for number, taskid in enumerate(_taskids(kind)):
                yield taskid, f"{self.sites[kind.name]}?{number}", timeout, kind.robots is not None

    def _create(self, project: str, script: str) -> None:
        row = {"name": project, "group": "", "status": "STOP", "updatetime": time.time()}
        self.crawl.projectdb.insert(project, {**row, "script": script, "rate": RATE, "burst": RATE})

    def _start(self, project: str) -> float:
        """Start a project as an operator would; return when it was asked."""
        with Client(self.settings) as client:
            began = time.monotonic()
            client.wait(client.start(names=[project]).id, PATIENCE)
        return began

    def _await_all(self, projects: Sequence[str]) -> bool:
        """Wait until nothing is left of these projects, or nothing changes any more; say which."""
        last: Any = None
        changed = time.monotonic()
        while time.monotonic() - changed < STALL:
            seen = [self.crawl.taskdb.status_count(project) for project in projects]
            if seen != last:
                last, changed = seen, time.monotonic()
            if all(map(self._is_done, projects)):
                return True
            time.sleep(0.2)  # databases tell nobody
        return False

    def _is_done(self, project: str) -> bool:
        counts = self.crawl.taskdb.status_count(project)
        most = 2 * sum(kind.times for kind in self.kinds) if project == HOSTILE else self.pages
        return sum(counts.values()) >= most and not self.crawl.active(project)


def _taskids(kind: HostileKind) -> list[str]:
    return [f"{kind.name}-{number}" for number in range(kind.times)]
