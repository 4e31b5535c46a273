"""Full cycles: a new task is stored, selected, sent, and its status pack applied.

Every page has one link, to a new page, until all pages have been told of.
"""

from functools import partial
from typing import Any

from tests.bench import scrapy_runs
from tests.bench.bench import Bench
from tests.bench.contenders import ALL, running
from tests.bench.crawl import BenchCrawl, measure
from tests.bench.databases import add_projects
from tests.bench.links import Links
from tests.bench.turns import in_turn


def scenario(bench: Bench) -> dict[str, Any]:
    """Return figures by database, number of projects and contender; then those of Scrapy."""
    size = bench.size
    found: dict[str, Any] = {
        database: {
            str(count): in_turn(size.runs, ALL, partial(crawled, bench, database, count))
            for count in size.projects
        }
        for database in bench.databases
    }
    return found | {"scrapy": scrapy(bench), "compared": scrapy_runs.COMPARED}


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

    def driven(name: str) -> Any:
        return scrapy_runs.driven(name, bench.place(database), bench.size.seconds, links)

    return in_turn(bench.size.runs, scrapy_runs.KINDS, driven)
