"""How long one task waits, of a scheduler without work and of one at half load."""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspider_zk.local.child import Child
from tests.bench.bench import Bench, BenchPlace
from tests.bench.contenders import ALL, OURS, STOCK, BenchCrew, Contender, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import WITH_LOG, add_projects, done, store
from tests.bench.feeds import FeedPage, Links, is_script_call, pack_of
from tests.bench.figures import in_turn, latency
from tests.bench.machine import usage_of
from tests.support.chain_site import Site, SiteAnswer

KNOWN = 20_000
"""Tasks that are done before. With few, the same would come several times in a round, and pyspider
takes new tasks in until it has a thousand different ones: it would do nothing else any more.
"""
TRIAL = 4000  # links by which their price is found
IDLE = 1.0  # seconds for which an idle scheduler is looked at
BALLAST_LOOK = 0.05  # seconds between two looks at the queues
BEHIND = 0.5  # seconds of ballast that may wait
LEAST = 10e-6  # seconds of processor time that a link takes at least, whatever was measured
PROJECT = "ballast"


class Ballast:
    """Links to pages of a project that are done. Threads: one.

    Args:
        links: those of which ``KNOWN`` are done.
    """

    def __init__(self, crew: BenchCrew, links: Links) -> None:
        self._crew = crew
        self._links = links
        self._rate = 0.0
        self._owed = 0.0
        self._at = 0.0

    def calibrate(self, share: float) -> None:
        """Find the rate that takes this share of a processor, with what an idle one takes."""
        begin = self._cpu()
        time.sleep(IDLE)  # a share is one of a time
        idle = (self._cpu() - begin) / IDLE
        before, at = self._cpu(), time.monotonic()
        self._put(TRIAL)
        self._await_rest()
        price = (self._cpu() - before - idle * (time.monotonic() - at)) / TRIAL
        self._rate = max(0.0, share - idle) / max(price, LEAST)
        self._at = time.monotonic()

    def step(self) -> None:
        """Publish what is due by now; nothing before it is calibrated.

        A scheduler that other work on the machine keeps from its share is not flooded.
        """
        now = time.monotonic()
        self._owed += self._rate * (now - self._at)
        self._at = now
        due, self._owed = int(self._owed), self._owed % 1
        if due and self._crew.feed.unapplied() < self._rate * BEHIND:
            self._put(due)

    def _await_rest(self) -> None:
        """Wait until all is applied, and what comes after the last message is done."""
        while self._crew.feed.unapplied():
            time.sleep(BALLAST_LOOK)  # Redis is asked
        time.sleep(IDLE)  # nobody tells of it

    def _cpu(self) -> float:
        return usage_of(self._crew.pids).cpu

    def _put(self, count: int) -> None:
        if count:
            self._crew.feed.answer([FeedPage([self._links.old(PROJECT)]) for _ in range(count)])


SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        self.crawl("{url}/0", callback=self.page)

    def page(self, response):
        self.crawl(response.json["next"], callback=self.page)
"""


class Chain(Site):
    """Serves ``/<number>``, which links to the next number.

    Threads: its own serve; the methods may be called from any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: dict[int, float] = {}
        self._waits: list[float] = []
        super().__init__(_page(self))
        self.script = SCRIPT.format(url=self.url)

    def waits(self) -> list[float]:
        """Return for each link how long it took from its page to its child, in seconds."""
        with self._lock:
            return list(self._waits)

    def asked(self, number: int) -> bytes:
        """Note that a page was asked for; return it."""
        with self._lock:
            if number - 1 in self._served:
                self._waits.append(time.monotonic() - self._served.pop(number - 1))
        return json.dumps({"next": f"{self.url}/{number + 1}"}).encode()

    def served(self, number: int) -> None:
        """Note that a page is out."""
        with self._lock:
            self._served[number] = time.monotonic()


def _page(chain: Chain) -> type[SiteAnswer]:
    class Page(SiteAnswer):
        def get(self) -> None:
            found = re.fullmatch(r"/(\d+)", self.path)
            self.say(chain.asked(int(found[1])) if found else b"", 200 if found else 404)
            if found:
                chain.served(int(found[1]))

    return Page


LOADS = {"idle": 0.0, "half load": 0.5}  # of what a scheduler can do
NEW_TASK_LOOK = 0.005  # seconds between two portions of ballast
NEW_TASK_PATIENCE = 60.0  # seconds
APART = 0.2  # seconds between two samples at most; they meet a round anywhere
ASKER = "asker"


def new_task_latency(bench: Bench) -> dict[str, Any]:
    """Return waiting times in seconds by case and contender."""
    return by_case(bench, _new_task_latency_run)


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


def _new_task_latency_run(
    bench: Bench, database: str, share: float, contender: str
) -> dict[str, Any]:
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
        waits = _sample_new_tasks(crew, links, ballast, bench.size.samples)
        used = usage_of(crew.pids).cpu - before
        return latency(waits) | {"share": used / (time.monotonic() - begin)}


def _sample_new_tasks(crew: BenchCrew, links: Links, ballast: Ballast, samples: int) -> list[float]:
    pause = random.Random(1)  # noqa: S311 - no secret
    waits = []
    for _ in range(samples):
        until = time.monotonic() + pause.uniform(0, APART)
        while time.monotonic() < until:
            ballast.step()
            time.sleep(NEW_TASK_LOOK)
        waits.append(_wait(crew, links, ballast))
    return waits


def _wait(crew: BenchCrew, links: Links, ballast: Ballast) -> float:
    """Publish a new task; return after how many seconds it was sent."""
    wanted, begin = links.new(ASKER), time.monotonic()
    crew.feed.answer([FeedPage([wanted])])
    while True:
        task, now = crew.dispatched.wait(NEW_TASK_LOOK), time.monotonic()
        if task is not None:
            crew.feed.answer([FeedPage((), pack_of(task, 0))])
            if not is_script_call(task) and task["taskid"] == wanted["taskid"]:
                return now - begin
        ballast.step()
        if now > begin + NEW_TASK_PATIENCE:
            raise TimeoutError(f"a new task was not sent:\n{crew.last_words()}")


CHAIN = "chain"
ON_START = {
    "taskid": "on_start",
    "project": CHAIN,
    "url": "data:,on_start",
    "schedule": {"age": 0, "force_update": True},
    "process": {"callback": "on_start"},
}
ASK_AGAIN = 2.0  # seconds; pyspider drops what comes before its project is in memory
LINK_PATIENCE = 120.0  # seconds
LINK_LOOK = 0.01  # seconds between two portions of ballast


def link_latency(bench: Bench) -> dict[str, Any]:
    """Return waiting times in seconds by case and contender."""
    return by_case(bench, _link_latency_run)


def _link_latency_run(bench: Bench, database: str, share: float, name: str) -> dict[str, Any]:
    place, contender = bench.place(database), ALL[name]
    links = Links([CHAIN, PROJECT], 0)
    with Chain() as chain, ExitStack() as held:
        add_projects(place.databases, links.projects, script=chain.script)
        store(place.databases, PROJECT, done(links, PROJECT, KNOWN))
        for command in ("fetcher", "processor"):
            held.callback(_component(contender, place, command).kill)
        crew = held.enter_context(running(contender, place))
        _begin(crew, chain)
        ballast = Ballast(crew, links)
        if share:
            ballast.calibrate(share)
        return _sample_links(crew, chain, ballast, bench.size.samples)


def _component(contender: Contender, place: BenchPlace, command: str) -> Child:
    line = contender.line(place, command)
    child = Child(command, line, place.folder / f"{command}.log", place.environ, place.folder)
    child.start()
    return child


def _begin(crew: BenchCrew, chain: Chain) -> None:
    """Call ``on_start`` until the first link was followed."""
    until = time.monotonic() + LINK_PATIENCE
    while not chain.waits():
        if time.monotonic() > until:
            raise TimeoutError(f"no page was fetched:\n{crew.last_words()}")
        crew.feed.answer([FeedPage([ON_START])])
        again = time.monotonic() + ASK_AGAIN
        while not chain.waits() and time.monotonic() < again:
            time.sleep(LINK_LOOK)


def _sample_links(crew: BenchCrew, chain: Chain, ballast: Ballast, samples: int) -> dict[str, Any]:
    known, begin, before = len(chain.waits()), time.monotonic(), usage_of(crew.pids).cpu
    while len(chain.waits()) < known + samples:
        ballast.step()
        time.sleep(LINK_LOOK)
        if time.monotonic() > begin + LINK_PATIENCE + samples:
            raise TimeoutError(f"the chain has ended:\n{crew.last_words()}")
    used = usage_of(crew.pids).cpu - before
    return latency(chain.waits()[known:]) | {"share": used / (time.monotonic() - begin)}
