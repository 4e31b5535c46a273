"""What begins and ends: a scheduler starts, an owner leaves, and there is nothing to do."""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import redis

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.local.child import Child
from pyspider_zk.projects.slots import slot_of
from tests.bench.bench import Bench
from tests.bench.contenders import ALL, OURS, STOCK, BenchCrew, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import add_projects, pending, store
from tests.bench.feeds import FeedPage, Links, Task, is_script_call, pack_of
from tests.bench.figures import in_turn
from tests.bench.machine import usage_of

BIG = "a_big"
SMALL = [f"small{number}" for number in range(10)]
START_UP_AFTER = 3.0  # seconds for which all are looked at once the big one is served
START_UP_PATIENCE = 1800.0  # seconds
PAUSE = 0.002  # seconds


def start_up(bench: Bench) -> dict[str, Any]:
    """Return seconds and bytes by number of pending tasks and contender, with the first database.

    One run each: it is long, and reading millions of rows evens out by itself.
    """
    return {
        str(count): in_turn(1, (STOCK.name, OURS.name), partial(_start_up_run, bench, count))
        for count in bench.size.pending
    }


def _start_up_run(bench: Bench, count: int, contender: str) -> dict[str, Any]:
    place = bench.place(next(iter(bench.databases)))
    links = Links([BIG, *SMALL])
    add_projects(place.databases, links.projects)
    store(place.databases, BIG, pending(links, BIG, count))
    for name in SMALL:
        store(place.databases, name, pending(links, name, 1))
    begin = time.monotonic()
    with running(ALL[contender], place) as crew:
        sent = _follow_start(crew, links, begin)
        end = time.monotonic()
        first = {name: times[0] - begin for name, times in sent.items()}
        return {
            "first_dispatch_s": min(first.values()),
            "last_first_dispatch_s": max(first.values()),
            "longest_wait_of_others_s": max(_longest([*sent[name], end]) for name in SMALL),
            "peak_bytes": usage_of(crew.pids).peak,
        }


def _follow_start(crew: BenchCrew, links: Links, begin: float) -> dict[str, list[float]]:
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
            until = now + START_UP_AFTER
        if now > begin + START_UP_PATIENCE:
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


PROJECTS = 20
BEFORE = 3.0  # seconds for which the crawl is looked at before
TAKEOVER_AFTER = 3.0  # seconds for which it goes on once all projects are served again
TAKEOVER_PATIENCE = 120.0  # seconds


def takeover(bench: Bench) -> dict[str, Any]:
    """Return seconds by database and way of leaving.

    The pause of a project is the longest time without a dispatch of its tasks: that is from the
    last one by its former owner to the first one by the next. The shortest such pause is that of
    the project which the next owner serves first.
    """
    ways: dict[str, Callable[[Child], None]] = {"killed": Child.kill, "planned": Child.terminate}

    def by_way(database: str) -> dict[str, Any]:
        return in_turn(bench.size.runs, ways, lambda way: _takeover_run(bench, database, ways[way]))

    return {database: by_way(database) for database in bench.some_databases}


def _takeover_run(bench: Bench, database: str, end: Callable[[Child], None]) -> dict[str, Any]:
    place = bench.place(database)
    links = Links([f"p{number}" for number in range(PROJECTS)], 0)
    add_projects(place.databases, links.projects)
    for name in links.projects:
        store(place.databases, name, pending(links, name, bench.size.moving // PROJECTS))
    links.left = sys.maxsize  # each page has a new one, so that no project runs out of tasks
    with running(OURS, place, 2) as crew:
        crawl, times = BenchCrawl(crew, links), TakeoverTimes()
        _follow_takeover(crawl, times, lambda: times.seen(links.projects, 0.0))
        _follow_takeover(crawl, times, _after(BEFORE))
        leaving = crew.children[0]
        moving = list(_owned(crew, leaving.pid, links.projects))
        begin = time.monotonic()
        end(leaving)
        _follow_takeover(crawl, times, lambda: not leaving.running)
        crew.children.remove(leaving)
        gone = time.monotonic()
        _follow_takeover(crawl, times, lambda: times.seen(moving, gone))
        _follow_takeover(crawl, times, _after(TAKEOVER_AFTER))
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


def _follow_takeover(crawl: BenchCrawl, times: TakeoverTimes, enough: Callable[[], bool]) -> None:
    """Answer and take the times down until it is enough."""
    until = time.monotonic() + TAKEOVER_PATIENCE
    while not enough():
        for task in crawl.step():
            times.note(task["project"], time.monotonic())
        if time.monotonic() > until:
            raise TimeoutError("projects are not served any more")


def _owned(crew: BenchCrew, pid: int, projects: list[str]) -> Iterator[str]:
    with Directory(crew.place.settings) as directory:
        cluster = directory.read()
    for name in projects:
        owner = cluster.assignment.slots[slot_of(name, cluster.meta.slots)].owner
        if owner in cluster.members and cluster.members[owner].pid == pid:
            yield name


RUNNING = 100
REST = 3.0  # seconds for the events that come after the last task
SECONDS = 10.0  # at least: some work is done every ten seconds only


def idle(bench: Bench) -> dict[str, Any]:
    """Return shares and rates by contender, with the first of the databases."""
    return in_turn(bench.size.runs, (STOCK.name, OURS.name), partial(_idle_run, bench))


def _idle_run(bench: Bench, contender: str) -> dict[str, Any]:
    place = bench.place(next(iter(bench.databases)))
    names = [f"p{number}" for number in range(RUNNING)]
    add_projects(place.databases, names)
    stopped = bench.size.stopped - RUNNING
    add_projects(place.databases, [f"s{number}" for number in range(stopped)], "STOP")
    with running(ALL[contender], place) as crew:
        BenchCrawl(crew, Links(names)).begin()
        time.sleep(REST)
        begin, cpu = time.monotonic(), usage_of(crew.pids).cpu
        commands, packets = redis_commands(bench.redis.url), zookeeper_packets(bench)
        asking = zookeeper_packets(bench) - packets
        time.sleep(max(SECONDS, bench.size.seconds))
        taken = time.monotonic() - begin
        return {
            "share": (usage_of(crew.pids).cpu - cpu) / taken,
            "redis_commands_per_s": (redis_commands(bench.redis.url) - commands) / taken,
            "zookeeper_packets_per_s": (zookeeper_packets(bench) - packets - 2 * asking) / taken,
            "peak_bytes": usage_of(crew.pids).peak,
        }


def redis_commands(url: str) -> int:
    """Return how many commands Redis has carried out, without those that ask it."""
    with redis.Redis.from_url(url) as client:
        told: Any = client.info("commandstats")
    asking = ("cmdstat_info", "cmdstat_client")
    return sum(each["calls"] for name, each in told.items() if not name.startswith(asking))


def zookeeper_packets(bench: Bench) -> int:
    """Return how many packets ZooKeeper has received and sent, with those of who asked before."""
    with socket.create_connection(("127.0.0.1", bench.zookeeper.port)) as link:
        link.sendall(b"mntr")
        return parse_packets(b"".join(iter(lambda: link.recv(65536), b"")).decode())


def parse_packets(text: str) -> int:
    """Return the packets in ZooKeeper's answer to ``mntr``."""
    fields = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return int(fields["zk_packets_received"]) + int(fields["zk_packets_sent"])
