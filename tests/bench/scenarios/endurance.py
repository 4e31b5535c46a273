"""One scheduler at full rate for an hour: whether its rate falls and its memory grows."""

import time
from typing import Any

from tests.bench.bench import Bench
from tests.bench.contenders import OURS, BenchCrew, running
from tests.bench.crawl import BenchCrawl, cycles
from tests.bench.databases import add_projects
from tests.bench.links import Links
from tests.bench.size import MAIN
from tests.bench.usage import usage_of

UNDER_WAY = 4000  # tasks: each page has one link, so as many stay under way
PARTS = 12  # the time is looked at in so many


def scenario(bench: Bench) -> dict[str, Any]:
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
