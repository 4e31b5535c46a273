"""Measures the pages that people look at all day, with 1,000 projects on five schedulers.

Usage: ``python -m tests.webui.benchmark``; it starts a cluster of its own, in a temporary folder.
The last column compares with ``/robots.txt``, which asks nobody anything.
"""

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from pyspider.database import connect_database

from pyspider_zk.client import Client
from pyspider_zk.local.folder import Running
from tests.support.running_cluster import settings_of, up

PROJECTS = 1000
SCHEDULERS = 5
BATCHES = 16  # of which the jobs are kept: 4,096
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


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def populate(running: Running) -> None:
    """Make the projects and start them, so that there is something to count."""
    projectdb = connect_database(running.projectdb)
    row = {"status": "STOP", "script": SCRIPT, "group": "", "comments": "", "rate": 9, "burst": 9}
    for number in range(PROJECTS):
        projectdb.insert(f"project_{number}", row)
    with Client(settings_of(running)) as client:
        for number in range(BATCHES):
            client.submit("group", {"group": f"g{number % 2}"}, all=True)
        ended = client.wait(client.start(all=True).id)
    say(f"{ended.done} of {PROJECTS} projects started")


def measure(url: str) -> tuple[float, float]:
    """Return the median and the longest time of some requests, in seconds."""
    taken = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        with urlopen(url, timeout=60) as answer:  # noqa: S310 - ours
            answer.read()
        taken.append(time.perf_counter() - begin)
    return median(taken), max(taken)


def main() -> None:
    """Print the times of each page, while the projects crawl."""
    with (
        TemporaryDirectory() as folder,
        up(Path(folder), "--schedulers", str(SCHEDULERS)) as running,
    ):
        populate(running)
        reference = None
        say(f"{'':<44}{'median':>10}{'longest':>13}{'ratio':>8}")
        for path in PATHS:
            middle, longest = measure(running.webui.rstrip("/") + path)
            reference = reference or middle
            times = f"{middle * 1000:7.1f} ms{longest * 1000:10.1f} ms"
            say(f"{path:<44}{times}{middle / reference:8.1f}")


if __name__ == "__main__":
    main()
