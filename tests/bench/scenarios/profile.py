"""Where the processor time of a cycle goes, by cProfile in the scheduler's own process."""

import os
import pstats
import signal
import time
from typing import Any

from tests.bench.bench import Bench
from tests.bench.contenders import ALL, OURS, STOCK, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import add_projects
from tests.bench.links import Links
from tests.bench.profile_parts import by_part, costliest
from tests.bench.size import MAIN

TRIAL = 200
END = 60.0  # seconds until a scheduler that was asked to quit has ended
TOP = 15


def scenario(bench: Bench) -> dict[str, Any]:
    """Return shares of the rounds' processor time by database and contender."""
    return {
        database: {name: _profiled(bench, database, name) for name in (STOCK.name, OURS.name)}
        for database in bench.some_databases
    }


def _profiled(bench: Bench, database: str, name: str) -> dict[str, Any]:
    place = bench.place(database)
    links = Links([f"p{number}" for number in range(MAIN)])
    add_projects(place.databases, links.projects)
    file = place.folder / "profile"
    prefix = ("-m", "tests.bench.profiled", str(file))
    with running(ALL[name], place, prefix=prefix) as crew:
        crawl, pages = BenchCrawl(crew, links), TRIAL
        crawl.begin()
        begin = time.monotonic()
        while time.monotonic() - begin < 2 * bench.size.seconds:
            crawl.complete(pages)
            pages *= 2
        child = crew.children.pop()
        os.kill(child.pid, signal.SIGINT)
        if not child.wait(END):
            raise TimeoutError(f"{name} did not quit")
    stats = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    return {"parts": by_part(stats), "costliest": costliest(stats, TOP), "cycles": crawl.answered}
