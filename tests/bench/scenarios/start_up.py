"""A scheduler starts with millions of pending tasks of one project, beside ten small ones."""

import time
from functools import partial
from itertools import pairwise
from typing import Any

from tests.bench.bench import Bench
from tests.bench.contenders import ALL, OURS, STOCK, BenchCrew, running
from tests.bench.databases import add_projects
from tests.bench.feeds import FeedPage
from tests.bench.links import Links, Task, is_script_call, pack_of
from tests.bench.stored_tasks import pending, store
from tests.bench.turns import in_turn
from tests.bench.usage import usage_of

BIG = "a_big"
SMALL = [f"small{number}" for number in range(10)]
AFTER = 3.0  # seconds for which all are looked at once the big one is served
PATIENCE = 1800.0  # seconds
PAUSE = 0.002  # seconds


def scenario(bench: Bench) -> dict[str, Any]:
    """Return seconds and bytes by number of pending tasks and contender, with the first database.

    One run each: it is long, and reading millions of rows evens out by itself.
    """
    return {
        str(count): in_turn(1, (STOCK.name, OURS.name), partial(_measured, bench, count))
        for count in bench.size.pending
    }


def _measured(bench: Bench, count: int, contender: str) -> dict[str, Any]:
    place = bench.place(next(iter(bench.databases)))
    links = Links([BIG, *SMALL])
    add_projects(place.databases, links.projects)
    store(place.databases, BIG, pending(links, BIG, count))
    for name in SMALL:
        store(place.databases, name, pending(links, name, 1))
    begin = time.monotonic()
    with running(ALL[contender], place) as crew:
        sent = _follow(crew, links, begin)
        end = time.monotonic()
        first = {name: times[0] - begin for name, times in sent.items()}
        return {
            "first_dispatch_s": min(first.values()),
            "last_first_dispatch_s": max(first.values()),
            "longest_wait_of_others_s": max(_longest([*sent[name], end]) for name in SMALL),
            "peak_bytes": usage_of(crew.pids).peak,
        }


def _follow(crew: BenchCrew, links: Links, begin: float) -> dict[str, list[float]]:
    """Answer until all projects are served, and a little longer; return when what was sent."""
    sent: dict[str, list[float]] = {}
    until = None
    while until is None or time.monotonic() < until:
        tasks, now = crew.dispatched.take(1000), time.monotonic()
        crew.feed.answer([_page(links, task) for task in tasks])
        for task in tasks:
            if not is_script_call(task):
                sent.setdefault(task["project"], []).append(now)
        if until is None and len(sent) == 1 + len(SMALL):
            until = now + AFTER
        if now > begin + PATIENCE:
            raise TimeoutError(f"only {len(sent)} projects were served:\n{crew.last_words()}")
        if not tasks:
            crew.check()
            time.sleep(PAUSE)
    return sent


def _page(links: Links, task: Task) -> FeedPage:
    """Return a page; those of small projects have one new link each, so they never end."""
    small = task["project"] in SMALL and not is_script_call(task)
    found = [links.new(task["project"])] if small else []
    return FeedPage(found, pack_of(task, len(found)))


def _longest(times: list[float]) -> float:
    return max(b - a for a, b in pairwise(times))
