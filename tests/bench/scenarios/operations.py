"""Batches over many projects, and the pages that people look at all day, with five schedulers."""

import time
from typing import Any
from urllib.request import urlopen

from pyspider.database import connect_database

from pyspider_zk.client import Client
from pyspider_zk.local.folder import Running
from tests.bench.bench import Bench
from tests.bench.figures import percentile
from tests.support.running_cluster import settings_of, up

SCHEDULERS = 5
KEPT = 16  # batches before, so that there is something to tell of
REQUESTS = 30
PATHS = (
    "/robots.txt",
    "/",
    "/counter",
    "/cluster/projects",
    "/api/v1/workload?limit=50",
    "/api/v1/workload?limit=50&sort=-rate_now",
    "/api/v1/overview",
    "/api/v1/batches",
)
SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        self.crawl(["data:,%d" % number for number in range(5)], callback=self.page)

    def page(self, response):
        assert not response.url.endswith("4"), "one of five fails, again and again"
"""


def scenario(bench: Bench) -> dict[str, Any]:
    """Return seconds of batches and pages; ``/robots.txt`` asks nobody anything."""
    folder = bench.folder / "operations"
    folder.mkdir()
    with up(folder, "--schedulers", str(SCHEDULERS)) as running:
        _add_projects(running, bench.size.crowd)
        with Client(settings_of(running)) as client:
            for number in range(KEPT):
                client.submit("group", {"group": f"g{number % 2}"}, all=True)
            batches = {"start": _batch(client, "start")}
            pages = {path: _page(running.webui.rstrip("/") + path) for path in PATHS}
            batches |= {name: _batch(client, name) for name in ("restart", "delete")}
    return {"projects": bench.size.crowd, "batches": batches, "pages": pages}


def _add_projects(running: Running, count: int) -> None:
    projectdb = connect_database(running.projectdb)
    row = {"status": "STOP", "script": SCRIPT, "group": "", "comments": "", "rate": 9, "burst": 9}
    for number in range(count):
        projectdb.insert(f"project_{number}", row)


def _batch(client: Client, operation: str) -> dict[str, float]:
    """Return the seconds until a batch over all projects is accepted, and until it has ended."""
    begin = time.monotonic()
    batch = client.submit(operation, {"wait": False} if operation == "delete" else None, all=True)
    accepted = time.monotonic()
    ended = client.wait(batch.id)
    return {
        "accepted_s": accepted - begin,
        "ended_s": time.monotonic() - begin,
        "done": ended.done,
    }


def _page(url: str) -> dict[str, float]:
    taken = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        with urlopen(url, timeout=60) as answer:  # noqa: S310 - ours
            answer.read()
        taken.append(time.perf_counter() - begin)
    return {"p50_s": percentile(taken, 0.5), "longest_s": max(taken)}
