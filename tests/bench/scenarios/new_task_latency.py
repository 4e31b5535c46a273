"""From a new task to the fetchers' queue, of a scheduler without work and of one at half load."""

import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tests.bench.ballast import KNOWN, PROJECT, Ballast
from tests.bench.bench import Bench
from tests.bench.contenders import ALL, OURS, STOCK, BenchCrew, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import WITH_LOG, add_projects
from tests.bench.feeds import FeedPage
from tests.bench.figures import latency
from tests.bench.links import Links, is_script_call, pack_of
from tests.bench.stored_tasks import done, store
from tests.bench.turns import in_turn
from tests.bench.usage import usage_of

LOADS = {"idle": 0.0, "half load": 0.5}  # of what a scheduler can do
LOOK = 0.005  # seconds between two portions of ballast
PATIENCE = 60.0  # seconds
APART = 0.2  # seconds between two samples at most; they meet a round anywhere
ASKER = "asker"


def scenario(bench: Bench) -> dict[str, Any]:
    """Return waiting times in seconds by case and contender."""
    return by_case(bench, _measured)


def by_case(
    bench: Bench, measured: Callable[[Bench, str, float, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return medians by case and contender: the first of the databases, then as ``up`` makes it.

    Args:
        measured: takes the database's name, the share of load, and the contender's name.
    """
    first = next(iter(bench.databases))
    cases = {load: (first, share) for load, share in LOADS.items()}
    cases["idle, write-ahead log"] = (WITH_LOG, 0.0)
    return {
        case: in_turn(bench.size.runs, (STOCK.name, OURS.name), partial(measured, bench, *about))
        for case, about in cases.items()
    }


def _measured(bench: Bench, database: str, share: float, contender: str) -> dict[str, Any]:
    place = bench.place(database)
    links = Links([ASKER, PROJECT], 0)
    add_projects(place.databases, links.projects)
    store(place.databases, PROJECT, done(links, PROJECT, KNOWN))
    with running(ALL[contender], place) as crew:
        BenchCrawl(crew, links).begin()
        ballast = Ballast(crew, links)
        if share:
            ballast.calibrate(share)
        begin, before = time.monotonic(), usage_of(crew.pids).cpu
        waits = _sample(crew, links, ballast, bench.size.samples)
        used = usage_of(crew.pids).cpu - before
        return latency(waits) | {"share": used / (time.monotonic() - begin)}


def _sample(crew: BenchCrew, links: Links, ballast: Ballast, samples: int) -> list[float]:
    pause = random.Random(1)  # noqa: S311 - no secret
    waits = []
    for _ in range(samples):
        until = time.monotonic() + pause.uniform(0, APART)
        while time.monotonic() < until:
            ballast.step()
            time.sleep(LOOK)
        waits.append(_wait(crew, links, ballast))
    return waits


def _wait(crew: BenchCrew, links: Links, ballast: Ballast) -> float:
    """Publish a new task; return after how many seconds it was sent."""
    wanted, begin = links.new(ASKER), time.monotonic()
    crew.feed.answer([FeedPage([wanted])])
    while True:
        task, now = crew.dispatched.wait(LOOK), time.monotonic()
        if task is not None:
            crew.feed.answer([FeedPage((), pack_of(task, 0))])
            if not is_script_call(task) and task["taskid"] == wanted["taskid"]:
                return now - begin
        ballast.step()
        if now > begin + PATIENCE:
            raise TimeoutError(f"a new task was not sent:\n{crew.last_words()}")
