"""Whole crawls of one site: from the first link to the last result, with all components.

One fetcher, two processors and a result worker, as many pages in ten projects, pyspider's sample
script: every link is followed, every page gives a result. The site costs next to nothing.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import md5
from typing import Any

import msgpack
import redis
from pyspider.database import connect_database

from pyspider_zk.local.child import Child, tail
from tests.bench.bench import Bench, BenchPlace
from tests.bench.contenders import OURS, STOCK, Contender
from tests.bench.databases import add_projects
from tests.bench.figures import in_turn
from tests.bench.machine import cpu_of
from tests.bench.page_site import page_site
from tests.bench.scenarios.cycles import SCRAPY, scrapy_python
from tests.support.connected import is_settled
from tests.support.crawling_cluster import descendants
from tests.support.ports import own_port
from tests.support.waiting import eventually

GROUPS = [f"p{number}" for number in range(10)]
WARM = "warm"  # project that is crawled first, so that every process has loaded what it needs
PATIENCE = 300.0  # seconds that a crawl may take
LOOK = 0.1  # seconds between two looks into the databases

SCRIPT = """
from pyspider.libs.base_handler import *

class Handler(BaseHandler):
    crawl_config = {}

    def on_start(self):
        self.crawl("%s", callback=self.index_page)

    @config(age=10 * 24 * 60 * 60)
    def index_page(self, response):
        for each in response.doc('a[href^="http"]').items():
            self.crawl(each.attr.href, callback=self.index_page)
        return {"url": response.url, "title": response.doc("title").text()}
"""

PYSPIDERS: Mapping[str, tuple[Contender, int]] = {
    STOCK.name: (STOCK, 1),
    f"{OURS.name}, 1 scheduler": (OURS, 1),
    f"{OURS.name}, 3 schedulers": (OURS, 3),
}
SCRAPIES = {"Scrapy": "memory", "Scrapy, scrapy-redis": "redis"}


def whole_crawl(bench: Bench) -> dict[str, Any]:
    """Return figures by database and contender, Scrapy's beside those of the first."""
    found: dict[str, Any] = {}
    pages = bench.size.pages // len(GROUPS)
    with page_site(bench.folder / "site", pages, [*GROUPS, WARM]) as address:
        for database in bench.some_databases:
            contenders = PYSPIDERS if found else [*PYSPIDERS, *SCRAPIES]
            crawled = partial(_crawled, bench, database, address, pages)
            found[database] = in_turn(bench.size.runs, contenders, crawled)
    return found


def _crawled(
    bench: Bench, database: str, address: str, pages: int, contender: str
) -> dict[str, Any]:
    place = bench.place(database)
    if contender in SCRAPIES:
        return _by_scrapy(SCRAPIES[contender], place, address)
    crawl = WholeCrawl(place, address, pages)
    with _running(*PYSPIDERS[contender], place) as crew:
        parts = {**crew, "Redis": bench.redis.pid, "ZooKeeper": bench.zookeeper.pid}
        crawl.complete([WARM])
        before, begin = _used(parts), time.monotonic()
        crawl.complete(GROUPS)
        return _figures(pages * len(GROUPS), time.monotonic() - begin, before, _used(parts))


def _figures(
    pages: int, seconds: float, before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, Any]:
    parts = {name: (after[name] - before[name]) / pages for name in after}
    return {"per_s": pages / seconds, "cpu_s": sum(parts.values()), "pages": pages, "parts": parts}


def _by_scrapy(kind: str, place: BenchPlace, address: str) -> dict[str, Any]:
    arguments = [kind, address, place.redis, str(place.folder / "items.jsonl"), *GROUPS]
    command = [str(scrapy_python()), "-W", "ignore", str(SCRAPY / "crawl.py"), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    parts = {"Scrapy": found["cpu_s"]}
    return _figures(found["pages"], found["seconds"], dict.fromkeys(parts, 0.0), parts)


class WholeCrawl:
    """Crawl of the site, from the tasks that start it until all is stored. Threads: one."""

    def __init__(self, place: BenchPlace, address: str, pages: int) -> None:
        self._place = place
        self._pages = pages
        for group in (WARM, *GROUPS):
            script = SCRIPT % f"http://{address}/{group}/0.html"
            add_projects(place.databases, [group], script=script)
        self._taskdb, self._resultdb = (
            connect_database(place.databases[kind]) for kind in ("taskdb", "resultdb")
        )

    def complete(self, groups: list[str]) -> None:
        """Start projects, and return when all their pages and results are stored."""
        with redis.Redis.from_url(self._place.redis) as client:
            for group in groups:
                client.rpush("newtask_queue", msgpack.packb(_first(group)))
        eventually(
            lambda: all(map(self._is_done, groups)),
            f"all pages of {', '.join(groups)}",
            within=PATIENCE,
            look=LOOK,
            told=self._last_words,
        )

    def _last_words(self) -> str:
        logs = sorted(self._place.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{tail(log)}" for log in logs)

    def _is_done(self, group: str) -> bool:
        self._taskdb._list_project()
        done = self._taskdb.status_count(group).get(self._taskdb.SUCCESS, 0)
        self._resultdb._list_project()
        return done > self._pages and self._resultdb.count(group) >= self._pages


def _first(group: str) -> dict[str, Any]:
    url = f"data:,on_start of {group}"  # stock loses tasks of one id that come together
    return {
        "taskid": md5(url.encode()).hexdigest(),  # noqa: S324 - pyspider's way
        "project": group,
        "url": url,
        "process": {"callback": "on_start"},
    }


@contextmanager
def _running(contender: Contender, schedulers: int, place: BenchPlace) -> Iterator[dict[str, int]]:
    """Run all components while the block runs; yield their processes by name."""
    lines = {"fetcher": ["fetcher", "--no-xmlrpc"], "result worker": ["result_worker"]}
    lines |= {f"processor {number}": ["processor"] for number in range(2)}
    for number in range(schedulers):
        port = "0" if contender.clustered else str(own_port())
        lines[f"scheduler {number}"] = ["scheduler", "--xmlrpc-port", port, *contender.options]
    with ExitStack() as held:
        children = {}
        for name, line in lines.items():
            command = contender.line(place, *line, queue="100")
            log = place.folder / f"{name}.log"
            children[name] = Child(name, command, log, place.environ, place.folder)
            held.callback(children[name].kill)
            children[name].start()
        if contender.clustered:
            eventually(lambda: is_settled(place.settings, schedulers), "a cluster", look=0.1)
        yield {name: child.pid for name, child in children.items()}
        for child in children.values():
            if not child.running:
                raise RuntimeError(f"{child.name} ended:\n{tail(child.log)}")


def _used(parts: Mapping[str, int]) -> dict[str, float]:
    """Return seconds of processor time of each part, with its children; numbers are left out."""
    used: dict[str, float] = {}
    for name, pid in parts.items():
        part = name.rstrip(" 0123456789")
        used[part] = used.get(part, 0.0) + sum(map(cpu_of, [pid, *descendants(pid)]))
    return used
