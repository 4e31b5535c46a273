"""Crawls: full cycles, known links, several schedulers, where the time goes, and an hour of it.

In a full cycle a new task is stored, selected, sent, and its status pack applied. Every page has
one link, to a new page, until all pages have been told of.
"""

import json
import os
import pstats
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.bench import Bench, BenchPlace
from tests.bench.contenders import ALL, OURS, STOCK, BenchCrew, running
from tests.bench.crawl import BenchCrawl, cycles, measure
from tests.bench.databases import add_projects
from tests.bench.feeds import Links
from tests.bench.figures import MAIN, in_turn
from tests.bench.machine import usage_of
from tests.bench.profiled import by_part, costliest
from tests.support.processes import ROOT

SCRAPY_KINDS = {"scrapy-redis": "redis", "Scrapy disk queue": "disk"}
COMPARED = (
    "Scrapy's schedulers only keep requests: dupe filter and queue, one request in and one out for"
    " each page. They store no outcome and know no projects, rates or retries."
)

SCRAPY = Path(__file__).parents[1] / "scrapy"
_ENVIRONMENT = ROOT / "build/scrapy"
_LOCK = SCRAPY / "requirements.txt"


def _driven(name: str, place: BenchPlace, seconds: float, links: tuple[int, int] = (1, 0)) -> Any:
    """Return the figures of a scheduler that is given pages for so many seconds."""
    folder = place.folder / "scrapy"
    folder.mkdir()
    arguments = [SCRAPY_KINDS[name], folder, place.redis, seconds, *links]
    done = subprocess.run(
        [scrapy_python(), "-W", "ignore", str(SCRAPY / "drive.py"), *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)


def scrapy_python() -> Path:
    """Return the environment's Python; make it if it is not there, or not as locked."""
    python, note = _ENVIRONMENT / "bin/python", _ENVIRONMENT / "installed.txt"
    if note.exists() and note.read_text(encoding="utf-8") == _LOCK.read_text(encoding="utf-8"):
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT)], check=True)
    install = ["install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([str(python), "-m", "pip", *install, "-r", str(_LOCK)], check=True)
    note.write_text(_LOCK.read_text(encoding="utf-8"), encoding="utf-8")
    return python


def full_cycle(bench: Bench) -> dict[str, Any]:
    """Return figures by database, number of projects and contender; then those of Scrapy."""
    size = bench.size
    found: dict[str, Any] = {
        database: {
            str(count): in_turn(size.runs, ALL, partial(crawled, bench, database, count))
            for count in size.projects
        }
        for database in bench.databases
    }
    return found | {"scrapy": scrapy(bench), "compared": COMPARED}


def crawled(
    bench: Bench,
    database: str,
    projects: int,
    contender: str,
    schedulers: int = 1,
    links: tuple[int, int] = (1, 0),
    quiet: bool = False,
) -> dict[str, Any]:
    """Return the figures of one crawl; ``links`` are those of a page, and how many are old."""
    place = bench.place(database)
    names = [f"p{number}" for number in range(projects)]
    add_projects(place.databases, names)
    with running(ALL[contender], place, schedulers, quiet=quiet) as crew:
        return measure(BenchCrawl(crew, Links(names, *links)), crew.pids, bench.size.seconds)


def scrapy(bench: Bench, links: tuple[int, int] = (1, 0)) -> dict[str, Any]:
    """Return the figures of Scrapy's schedulers."""
    database, *_ = bench.databases  # they use none

    def measure_one(name: str) -> Any:
        return _driven(name, bench.place(database), bench.size.seconds, links)

    return in_turn(bench.size.runs, SCRAPY_KINDS, measure_one)


LINKS = (20, 18)
QUIET = {"logging on": False, "logging off": True}


def duplicates(bench: Bench) -> dict[str, Any]:
    """Return figures by database, logging and contender; a cycle is a page. Then Scrapy's."""
    found: dict[str, Any] = {
        database: {
            logging: _duplicates_run(bench, database, quiet) for logging, quiet in QUIET.items()
        }
        for database in bench.some_databases
    }
    return found | {"scrapy": scrapy(bench, LINKS)}


def _duplicates_run(bench: Bench, database: str, quiet: bool) -> dict[str, Any]:
    def measure(name: str) -> dict[str, Any]:
        return crawled(bench, database, MAIN, name, links=LINKS, quiet=quiet)

    return in_turn(bench.size.runs, (STOCK.name, OURS.name), measure)


COUNTS = ("1", "2", "4")
PROJECTS = 100  # so that each has its share


def schedulers(bench: Bench) -> dict[str, Any]:
    """Return figures by database and number of schedulers; their processor time is summed."""
    return {database: _schedulers_run(bench, database) for database in bench.some_databases}


def _schedulers_run(bench: Bench, database: str) -> dict[str, Any]:
    def measure(count: str) -> dict[str, Any]:
        return crawled(bench, database, PROJECTS, OURS.name, schedulers=int(count))

    return in_turn(bench.size.runs, COUNTS, measure)


TRIAL = 200
END = 60.0  # seconds until a scheduler that was asked to quit has ended
TOP = 15


def profile(bench: Bench) -> dict[str, Any]:
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


UNDER_WAY = 4000  # tasks: each page has one link, so as many stay under way
PARTS = 12  # the time is looked at in so many


def endurance(bench: Bench) -> dict[str, Any]:
    """Return figures of each part of the time, with the first database; all tasks are counted."""
    place = bench.place(next(iter(bench.databases)))
    links = Links([f"p{number}" for number in range(MAIN)])
    add_projects(place.databases, links.projects)
    with running(OURS, place) as crew:
        crawl = BenchCrawl(crew, links)
        crawl.begin()
        crawl.sow(UNDER_WAY)
        begin, seconds = time.monotonic(), bench.size.endurance / PARTS
        parts = [
            _part(crawl, crew, seconds) | {"until_s": time.monotonic() - begin}
            for _ in range(PARTS)
        ]
        crawl.finish()
    return {"parts": parts, "cycles": crawl.answered}


def _part(crawl: BenchCrawl, crew: BenchCrew, seconds: float) -> dict[str, Any]:
    begin, before, first = time.monotonic(), usage_of(crew.pids), crawl.answered
    crawl.run_for(seconds)
    taken, after = time.monotonic() - begin, usage_of(crew.pids)
    found = cycles(crawl.answered - first, taken, after.cpu - before.cpu)
    return found | {"resident_bytes": after.resident}
