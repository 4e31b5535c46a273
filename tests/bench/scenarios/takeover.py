"""An owner is killed, or told to leave, with many tasks pending: who waits, and for how long."""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.local.child import Child
from pyspider_zk.projects.slots import slot_of
from tests.bench.bench import Bench
from tests.bench.contenders import OURS, BenchCrew, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import add_projects
from tests.bench.links import Links
from tests.bench.stored_tasks import pending, store
from tests.bench.turns import in_turn

PROJECTS = 20
BEFORE = 3.0  # seconds for which the crawl is looked at before
AFTER = 3.0  # seconds for which it goes on once all projects are served again
PATIENCE = 120.0  # seconds


def scenario(bench: Bench) -> dict[str, Any]:
    """Return seconds by database and way of leaving.

    The pause of a project is the longest time without a dispatch of its tasks: that is from the
    last one by its former owner to the first one by the next. The shortest such pause is that of
    the project which the next owner serves first.
    """
    ways: dict[str, Callable[[Child], None]] = {"killed": Child.kill, "planned": Child.terminate}

    def by_way(database: str) -> dict[str, Any]:
        return in_turn(bench.size.runs, ways, lambda way: _measured(bench, database, ways[way]))

    return {database: by_way(database) for database in bench.some_databases}


def _measured(bench: Bench, database: str, end: Callable[[Child], None]) -> dict[str, Any]:
    place = bench.place(database)
    links = Links([f"p{number}" for number in range(PROJECTS)], 0)
    add_projects(place.databases, links.projects)
    for name in links.projects:
        store(place.databases, name, pending(links, name, bench.size.moving // PROJECTS))
    links.left = sys.maxsize  # each page has a new one, so that no project runs out of tasks
    with running(OURS, place, 2) as crew:
        crawl, times = BenchCrawl(crew, links), TakeoverTimes()
        _follow(crawl, times, lambda: times.seen(links.projects, 0.0))
        _follow(crawl, times, _after(BEFORE))
        leaving = crew.children[0]
        moving = list(_owned(crew, leaving.pid, links.projects))
        begin = time.monotonic()
        end(leaving)
        _follow(crawl, times, lambda: not leaving.running)
        crew.children.remove(leaving)
        gone = time.monotonic()
        _follow(crawl, times, lambda: times.seen(moving, gone))
        _follow(crawl, times, _after(AFTER))
        return {
            "gone_s": gone - begin,
            "shortest_pause_s": min(times.longest(name, begin) for name in moving),
            "longest_pause_s": max(times.longest(name, begin) for name in moving),
            "pause_before_s": max(times.longest(name, 0.0, begin) for name in moving),
            "moved": len(moving),
        }


class TakeoverTimes:
    """When tasks of each project were sent."""

    def __init__(self) -> None:
        self._sent: dict[str, list[float]] = {}

    def note(self, project: str, at: float) -> None:
        """Take down that one was."""
        self._sent.setdefault(project, []).append(at)

    def seen(self, projects: list[str], since: float) -> bool:
        """Return whether something of each project was sent after a moment."""
        return all(self._sent.get(name, [0.0])[-1] > since for name in projects)

    def longest(self, project: str, since: float, until: float = float("inf")) -> float:
        """Return the longest time without any, of those that ended after a moment."""
        sent = self._sent[project]
        pairs = pairwise(sent)
        return max((b - a for a, b in pairs if since < b <= until), default=0.0)


def _after(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def _follow(crawl: BenchCrawl, times: TakeoverTimes, enough: Callable[[], bool]) -> None:
    """Answer and take the times down until it is enough."""
    until = time.monotonic() + PATIENCE
    while not enough():
        for task in crawl.step():
            times.note(task["project"], time.monotonic())
        if time.monotonic() > until:
            raise TimeoutError("projects are not served any more")


def _owned(crew: BenchCrew, pid: int, projects: list[str]) -> Iterator[str]:
    """Yield the projects that a process owns."""
    with Directory(crew.place.settings) as directory:
        cluster = directory.read()
    for name in projects:
        owner = cluster.assignment.slots[slot_of(name, cluster.meta.slots)].owner
        if owner in cluster.members and cluster.members[owner].pid == pid:
            yield name
