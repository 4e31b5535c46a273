"""Batches over many projects, and the pages that people look at all day."""

import time
from typing import Any
from urllib.request import urlopen

from pyspider.database import connect_database

from pyspider_zk.client import Client
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.local.folder import Running
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.connection import Connection
from tests.bench.bench import Bench
from tests.bench.databases import add_projects
from tests.bench.figures import percentile, summary
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


def operations(bench: Bench) -> dict[str, Any]:
    """Return seconds of batches and pages; ``/robots.txt`` asks nobody anything."""
    folder = bench.folder / "operations"
    folder.mkdir()
    with up(folder, "--schedulers", str(SCHEDULERS)) as running:
        _add_projects(running, bench.size.crowd)
        with Client(settings_of(running)) as client:
            kept = [_group(client, f"g{number % 2}") for number in range(KEPT)]
            batches: dict[str, Any] = {"group": {"batches": KEPT, "ended_s": _ended(client, kept)}}
            batches["start"] = _batch(client, "start")
            pages = {path: _page(running.webui.rstrip("/") + path) for path in PATHS}
            batches["restart"] = _batch(client, "restart")
            batches["cancel"] = _cancel(client)
            batches["delete"] = _batch(client, "delete")
    return {"projects": bench.size.crowd, "batches": batches, "pages": pages}


def _add_projects(running: Running, count: int) -> None:
    projectdb = connect_database(running.projectdb)
    row = {"status": "STOP", "script": SCRIPT, "group": "", "comments": "", "rate": 9, "burst": 9}
    for number in range(count):
        projectdb.insert(f"project_{number}", row)


def _group(client: Client, group: str) -> str:
    return client.submit("group", {"group": group}, all=True).id


def _ended(client: Client, batches: list[str]) -> float:
    """Return the seconds until these batches have ended, one after the other."""
    begin = time.monotonic()
    for batch in batches:
        client.wait(batch)
    return time.monotonic() - begin


def _cancel(client: Client) -> dict[str, float]:
    """Return the seconds until a batch that was cancelled in the middle has stopped.

    ``seen_s`` is how long after the request its last project was done, as far as it was told.
    """
    batch = client.submit("restart", all=True)
    while not client.batch(batch.id).done:
        time.sleep(0.02)
    begin = seen = time.monotonic()
    last = client.cancel(batch.id)
    asked = time.monotonic() - begin
    while not (told := client.batch(batch.id)).ended:
        seen = time.monotonic() if told.done > last.done else seen
        last = told
        time.sleep(0.02)
    return {
        "asked_s": asked,
        "seen_s": seen - begin,
        "ended_s": time.monotonic() - begin,
        "done": told.done,
    }


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


ACCEPT_SCRIPT = "x" * 2000


def accept(bench: Bench) -> dict[str, Any]:
    """Return seconds of each step, by database."""
    return {database: _measured(bench, database) for database in bench.some_databases}


def _measured(bench: Bench, database: str) -> dict[str, Any]:
    place = bench.place(database)
    names = [f"project_{number}" for number in range(bench.size.accepted)]
    add_projects(place.databases, names, "STOP", ACCEPT_SCRIPT)
    connection, tree = Connection(place.settings), Tree(place.settings.root)
    connection.start()
    try:
        jobs, events = JobQueue(connection, tree.jobs), EventLog(connection, tree)
        projectdb = connect_database(place.databases["projectdb"])
        read = Directory(place.settings, connection).read
        service = BatchService(projectdb, jobs, events, read, place.settings.slots)
        return summary([_accepted(service) for _ in range(bench.size.runs)])
    finally:
        connection.stop()


def _accepted(service: BatchService) -> dict[str, float]:
    begin = time.perf_counter()
    batch = service.submit("start", Selection(all=True))
    accepted = time.perf_counter()
    service.batch(batch["id"])
    told = time.perf_counter()
    service.cancel(batch["id"])
    return {
        "accepted_s": accepted - begin,
        "told_s": told - accepted,
        "jobs": sum(batch["jobs"].values()),
    }
