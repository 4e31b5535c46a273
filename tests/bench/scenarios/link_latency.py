"""One link, with real fetcher and processor: from a page that is out until its child is fetched."""

import time
from contextlib import ExitStack
from typing import Any

from pyspider_zk.local.child import Child
from tests.bench.ballast import KNOWN, PROJECT, Ballast
from tests.bench.bench import Bench, BenchPlace
from tests.bench.chains import Chain
from tests.bench.contenders import ALL, BenchCrew, Contender, running
from tests.bench.databases import add_projects
from tests.bench.feeds import FeedPage
from tests.bench.figures import latency
from tests.bench.links import Links
from tests.bench.scenarios.new_task_latency import by_case
from tests.bench.stored_tasks import done, store
from tests.bench.usage import usage_of

CHAIN = "chain"
ON_START = {
    "taskid": "on_start",
    "project": CHAIN,
    "url": "data:,on_start",
    "schedule": {"age": 0, "force_update": True},
    "process": {"callback": "on_start"},
}
ASK_AGAIN = 2.0  # seconds; pyspider drops what comes before its project is in memory
PATIENCE = 120.0  # seconds
LOOK = 0.01  # seconds between two portions of ballast


def scenario(bench: Bench) -> dict[str, Any]:
    """Return waiting times in seconds by case and contender."""
    return by_case(bench, _measured)


def _measured(bench: Bench, database: str, share: float, name: str) -> dict[str, Any]:
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
        return _sample(crew, chain, ballast, bench.size.samples)


def _component(contender: Contender, place: BenchPlace, command: str) -> Child:
    line = contender.line(place, command)
    child = Child(command, line, place.folder / f"{command}.log", place.environ, place.folder)
    child.start()
    return child


def _begin(crew: BenchCrew, chain: Chain) -> None:
    """Call ``on_start`` until the first link was followed."""
    until = time.monotonic() + PATIENCE
    while not chain.waits():
        if time.monotonic() > until:
            raise TimeoutError(f"no page was fetched:\n{crew.last_words()}")
        crew.feed.answer([FeedPage([ON_START])])
        again = time.monotonic() + ASK_AGAIN
        while not chain.waits() and time.monotonic() < again:
            time.sleep(LOOK)


def _sample(crew: BenchCrew, chain: Chain, ballast: Ballast, samples: int) -> dict[str, Any]:
    known, begin, before = len(chain.waits()), time.monotonic(), usage_of(crew.pids).cpu
    while len(chain.waits()) < known + samples:
        ballast.step()
        time.sleep(LOOK)
        if time.monotonic() > begin + PATIENCE + samples:
            raise TimeoutError(f"the chain has ended:\n{crew.last_words()}")
    used = usage_of(crew.pids).cpu - before
    return latency(chain.waits()[known:]) | {"share": used / (time.monotonic() - begin)}
