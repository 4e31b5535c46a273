"""A crawl without fetchers and processors, which gives schedulers as much as they can take."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspider.database import connect_database

from tests.bench.contenders import BenchCrew
from tests.bench.feeds import FeedPage, Links, Task, is_script_call, pack_of
from tests.bench.machine import usage_of

AT_ONCE = 1000
PAUSE = 0.002  # seconds, if nothing was sent
LOOK = 0.02  # seconds between two looks into the database
PATIENCE = 180.0  # seconds until pages must be done
TRIAL = 200  # pages of the first attempt
MARGIN = 1.2  # times as many as the time would have sufficed for
FIRST = 5  # one page of so many is there at the beginning, the others are found
SATURATED = 0.9
"""Share of one processor from which on a scheduler counts as what limits."""


class BenchCrawl:
    """Answers whatever schedulers send, at once. Threads: one.

    Attributes:
        answered: pages so far.
    """

    def __init__(self, crew: BenchCrew, links: Links) -> None:
        self._crew = crew
        self._links = links
        self._taskdb = connect_database(crew.place.databases["taskdb"])
        self._begun: set[str] = set()
        self.answered = 0

    def begin(self) -> None:
        """Answer until all projects are in memory: pyspider drops what comes earlier."""
        self.run_until(lambda: self._begun >= set(self._links.projects))
        self.run_until(lambda: self._crew.feed.unapplied() == 0)

    def complete(self, pages: int) -> None:
        """Report so many new pages, and answer until the database says that all are done.

        Raises:
            TimeoutError: they are not within some minutes.
        """
        self._links.left += pages
        self._publish(max(len(self._links.projects), pages // FIRST))
        self._await_all()

    def sow(self, count: int) -> None:
        """Publish so many new pages; from now on each page has new links, until ``finish``."""
        self._links.left = sys.maxsize
        self._publish(count)

    def run_for(self, seconds: float) -> None:
        """Answer for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.step():
                self._crew.check()
                time.sleep(PAUSE)  # Redis is asked

    def finish(self) -> None:
        """Tell of no more pages, and answer until the database says that all are done.

        Raises:
            TimeoutError: they are not within some minutes.
        """
        self._links.left = 0
        self._await_all()

    def _publish(self, count: int) -> None:
        projects = self._links.projects
        tasks = [self._links.new(projects[number % len(projects)]) for number in range(count)]
        for begin in range(0, count, AT_ONCE):
            self._crew.feed.answer([FeedPage([task]) for task in tasks[begin : begin + AT_ONCE]])

    def _await_all(self) -> None:
        self.run_until(lambda: self._links.left <= 0 and self.answered >= self._links.told)
        self.run_until(self._all_stored, LOOK)

    def step(self) -> list[Task]:
        """Answer what was sent; return it."""
        tasks = self._crew.dispatched.take(AT_ONCE)
        if tasks:
            self._crew.feed.answer([self._page(task) for task in tasks])
        return tasks

    def run_until(self, holds: Callable[[], bool], pause: float = PAUSE) -> None:
        """Answer until a condition holds.

        Raises:
            TimeoutError: it does not within some minutes.
        """
        until = time.monotonic() + PATIENCE
        while not holds():
            if not self.step():
                time.sleep(pause)  # Redis and the database are asked
            if time.monotonic() > until:
                done = f"{self.answered} of {self._links.told} pages in {PATIENCE:g} s"
                raise TimeoutError(f"{done}\n{self._crew.last_words()}")

    def _all_stored(self) -> bool:
        """Return whether all pages have rows that say so; a row that is missing counts, too."""
        self._taskdb._list_project()
        found = (self._done(project) for project in self._links.projects)
        return self._crew.feed.unapplied() == 0 and sum(found) >= self._links.told

    def _done(self, project: str) -> int:
        count = self._taskdb.status_count(project)
        return int(count.get(self._taskdb.SUCCESS, 0))

    def _page(self, task: Task) -> FeedPage:
        if is_script_call(task):
            self._begun.add(task["project"])
            return FeedPage((), pack_of(task, 0))
        self.answered += 1
        links = self._links.on_page(task["project"])
        return FeedPage(links, pack_of(task, len(links)))


def measure(crawl: BenchCrawl, pids: list[int], seconds: float) -> dict[str, Any]:
    """Return what a crawl of at least so many seconds shows; ``pids`` are the schedulers'.

    It is a whole number of pages, all of them done in the end, so that no stage is left out. What
    a few pages wait for between rounds says nothing of many, so there are more until it takes long.
    """
    crawl.begin()
    pages, taken = TRIAL, 0.0
    crawl.complete(pages)
    while taken < seconds:
        begin, before, own = time.monotonic(), usage_of(pids), _own()
        crawl.complete(pages)
        taken, cpu, load = time.monotonic() - begin, usage_of(pids).cpu - before.cpu, _own() - own
        found = cycles(pages, taken, cpu) | {"load_share": load / taken}
        pages = round(MARGIN * seconds * found["per_s"])
    return found


def _own() -> float:
    times = os.times()
    return times.user + times.system


def cycles(pages: int, seconds: float, cpu: float) -> dict[str, Any]:
    share = cpu / seconds
    return {
        "per_s": pages / seconds,
        "cpu_s": cpu / pages,
        "share": share,
        "saturated": share >= SATURATED,
        "cycles": pages,
    }
