"""One step's crawl, seen from inside of the cluster.

Usage: ``python -m tests.deploy.inside.crawl begin|watch|count|kept STEP PAGES``. ``begin`` makes
the step's projects and starts them. ``watch`` prints a line of JSON a second until the crawl is
complete, or nothing has changed for long. ``count`` compares what was crawled with the trees that
the site serves. ``kept`` prints what nobody may change.
"""

import json
import os
import sys
import time
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from pyspider.database import connect_database
from sqlalchemy.exc import SQLAlchemyError

from pyspider_zk.client import Client
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.demo.crawl import DemoCrawl
from pyspider_zk.errors import ClusterError
from pyspider_zk.secret_files import URL_VARIABLES, take_from_files
from tests.deploy.inside.site import PORT
from tests.support.waiting import eventually

PROJECTS = 8
RATE = 2.0  # pages a second and project: a crawl lasts as long as it has pages, on any machine
SITE = f"http://deploy-test-site:{PORT}"
QUIET = 5.0  # seconds without an active task; what is in queues and hands shows up by then
STALL = 120.0  # seconds without any change
LOOK = 1.0  # seconds between two looks
PATIENCE = 120.0  # seconds until the projects are started

_SCRIPT = """
import json
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    crawl_config = {{"retries": 20}}
    retry_delay = {{0: 1, "": 2}}

    def on_start(self):
        self.visit(0, fetch_type="js")

    def page(self, response):
        told = response.json or json.loads(response.doc("pre").text())  # as a browser shows it
        for page in told["links"]:
            self.visit(page)
        return {{"url": response.url}}

    def visit(self, page, **how):
        self.crawl("{site}/{pages}/%s/%d" % (self.project_name, page), callback=self.page, **how)
"""


def projects_of(step: str) -> tuple[str, ...]:
    """Return the projects of a step; each crawls a tree of its own."""
    return tuple(f"{step}{number}" for number in range(PROJECTS))


def begin(step: str, pages: int) -> None:
    """Make the projects and start them as an operator would."""
    names = projects_of(step)
    _crawl(step).create(_SCRIPT.format(site=SITE, pages=pages))
    with Directory(_settings()) as directory:
        eventually(lambda: _members(directory), "a scheduler runs", within=PATIENCE)
    with Client(_settings()) as client:
        client.wait(client.rate(RATE, RATE, names=names).id, PATIENCE)
        client.wait(client.start(names=names).id, PATIENCE)


def _members(directory: Directory) -> Collection[object]:
    """Return who schedules; nobody before there is a cluster."""
    try:
        return directory.members()
    except ClusterError:
        return ()


def looks(step: str, pages: int) -> Iterator[dict[str, Any]]:
    """Yield what can be seen of crawl and cluster, until the end of the crawl."""
    crawl, last, changed = _crawl(step), None, time.monotonic()
    with Directory(_settings()) as directory:
        while time.monotonic() - changed < STALL:
            with suppress(
                ClusterError, SQLAlchemyError
            ):  # a server is away, for a step may do that
                seen = crawl.look()
                if seen != last:
                    last, changed = seen, time.monotonic()
                yield {"at": time.time(), "done": seen[0], **_state(directory)}
            if last == (PROJECTS * pages, 0) and time.monotonic() - changed >= QUIET:
                return
            time.sleep(LOOK)


def count(step: str, pages: int) -> dict[str, int]:
    """Return how many pages there are, were crawled, are missing and were fetched again."""
    expected = {f"{SITE}/{pages}/{name}/{n}" for name in projects_of(step) for n in range(pages)}
    crawled = _crawl(step).pages()
    asked = [times for name in projects_of(step) for times in _asked(name).values()]
    return {
        "expected": len(expected),
        "crawled": len(crawled & expected),
        "missing": len(expected - crawled),
        "duplicates": sum(asked) - len(asked),
    }


def kept(step: str) -> dict[str, Any]:
    """Return what nobody may have changed since the crawl ended."""
    crawl = _crawl(step)
    rows = [crawl.projectdb.get(name, fields=["status", "updatetime"]) for name in crawl.projects]
    tasks = [crawl.taskdb.status_count(name) for name in crawl.projects]
    return {"rows": rows, "tasks": tasks, "results": len(crawl.pages())}


def _state(directory: Directory) -> dict[str, Any]:
    cluster = directory.read()
    members = list(cluster.members.values())
    components = [each for found in cluster.components.values() for each in found.values()]
    return {
        "members": sorted(each.host for each in members),
        "incarnations": sorted(each.incarnation for each in cluster.members),
        "components": sorted(each.host for each in components),
        "settled": {slot.owner for slot in cluster.assignment.slots} == set(cluster.members),
        "versions": sorted({each.version for each in (*members, *components)}),
    }


def _crawl(step: str) -> DemoCrawl:
    databases = (connect_database(os.environ[name]) for name in ("TASKDB", "PROJECTDB", "RESULTDB"))
    return DemoCrawl(projects_of(step), *databases)


def _settings() -> Settings:
    return settings_from(environ=os.environ)


def _asked(project: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{SITE}/asked/{project}") as answer:  # noqa: S310 - our own
        found: dict[str, int] = json.load(answer)
        return found


def main(what: str, step: str, pages: str) -> None:
    """Do what the command line says."""
    take_from_files(os.environ, URL_VARIABLES)
    if what == "begin":
        begin(step, int(pages))
    for line in looks(step, int(pages)) if what == "watch" else ():
        print(json.dumps(line), flush=True)  # noqa: T201
    if what == "count":
        print(json.dumps(count(step, int(pages))))  # noqa: T201
    if what == "kept":
        print(json.dumps(kept(step)))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
