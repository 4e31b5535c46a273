"""``python -m tests.chaos outages``: services away for a time, alone and in pairs.

A cluster under ``pyspider-zk up`` crawls, and outages come one after the other.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis

from tests.chaos.away import WAYS, WAYS_OF_A_SERVER, Ways, all_away, listing, parse
from tests.support.chain_site import CHAINS
from tests.support.crawling_cluster import DATABASES, CrawlingCluster, grows
from tests.support.database_servers import PostgresServer

PATIENCE = 120.0  # seconds until what does not go on is said never to
FINISH = 120.0  # seconds until all pages must be crawled at the end
TELLING = 30.0  # seconds until what is away must be told of: projects are read every 10 s
STEPS = 3  # pages of each project after a return: the first may have been under way
STOPS_PAGES = {("taskdb", "locked"), ("taskdb", "read-only")} | {
    (what, how)
    for what in ("redis", "zookeeper", "databases")
    for how in ("frozen", "killed", "cut")
}
"""What no page is fetched without; a file that was moved away is still open."""

UNSEEN = {(f"{kind}db", "moved") for kind in ("task", "result")} | {
    ("databases", how) for how in ("frozen", "cut")
}
"""What nobody tells: who has the file open goes on, who waits for the server's answer waits on."""

WORDS = {
    **{f"{kind}db": f"{kind}db is away, what needs it waits" for kind in DATABASES},
    "databases": "taskdb is away, what needs it waits",
    "redis": "; scheduling waits",
    "zookeeper": "; the fences stay open until the lease ends",
}
"""What the product's logs say of what is away."""

PROJECTS = [f"away_{letter}" for letter in "abcdefghi"]
UNDER_WAY = CHAINS * len(PROJECTS)  # pages that may be when an outage begins, one of each chain
QUICK_TIMES: Mapping[str, float] = {"renewal": 0.5, "lease": 2.0, "session": 4.0}


@dataclass
class SufferedOutage:
    """What was seen of one.

    Attributes:
        parts: what was away, and how.
        seconds: how long.
        resumed: seconds from the return until each project had crawled some pages, None if never.
        stored: seconds from the return until a result was stored, None if never.
        fallen: processes that ended meanwhile.
        letters: dead letters afterwards.
        meanwhile: pages that were fetched in its second half. While what they need is away there
            are none but those that were under way, else it was not away.
        is_told: whether a log tells of it, as far as anybody could notice.
    """

    parts: Mapping[str, str]
    seconds: float
    resumed: float | None = None
    stored: float | None = None
    fallen: list[str] = field(default_factory=list)
    letters: int = 0
    meanwhile: int = 0
    is_told: bool = True

    @property
    def name(self) -> str:
        """Return what was away, in words."""
        return " and ".join(f"{what} ({how})" for what, how in self.parts.items())

    def faults(self, within: float) -> list[str]:
        """Return what is wrong with it.

        Args:
            within: seconds after the return until which it must have gone on.
        """
        said = [f"{self.name}: {fallen}" for fallen in self.fallen]
        for what, after in (("crawled on", self.resumed), ("stored results", self.stored)):
            if after is None:
                said.append(f"{self.name}: never {what} after the return")
            elif after > within:
                said.append(f"{self.name}: {what} only {after:.1f} s after the return")
        if self.meanwhile > UNDER_WAY and STOPS_PAGES & set(self.parts.items()):
            said.append(f"{self.name}: was not away, {self.meanwhile} pages were fetched meanwhile")
        if not self.is_told:
            said.append(f"{self.name}: was not away, no log tells of it")
        if self.letters:
            said.append(f"{self.name}: {self.letters} dead letters")
        return said

    def line(self) -> str:
        crawled, stored = (
            "never" if after is None else f"after {after:.1f} s"
            for after in (self.resumed, self.stored)
        )
        return (
            f"{self.name}, away for {self.seconds:g} s: crawled on {crawled}, stored results"
            f" {stored}, {self.meanwhile} pages in the second half of it"
        )


@dataclass
class OutageVerdict:
    """What was seen of all, and of the end."""

    outages: list[SufferedOutage] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def faults(self, within: float = PATIENCE) -> list[str]:
        return [
            *(fault for each in self.outages for fault in each.faults(within)),
            *self.unfinished,
        ]


def run(
    folder: Path,
    outages: Sequence[Mapping[str, str]],
    seconds: float,
    times: Mapping[str, float] | None = None,
    rate: float = 20.0,
    server: type[PostgresServer] | None = None,
) -> OutageVerdict:
    """Have these outages happen one after the other to one cluster.

    The file of the project database has no write-ahead log, as stock pyspider makes it: beside one
    readers go on whatever is locked, and a crawl only reads that database.

    Args:
        outages: what is away, and how, each time.
        seconds: how long each lasts, at least: it also lasts until the logs tell of it.
        times: settings of the cluster; an outage must outlast its lease and its session.
        rate: pages per second of each project, at most.
        server: what has the databases; None: they are files.
    """
    verdict = OutageVerdict()
    files = None if server else {"project": f"sqlite+projectdb:///{folder / 'project.db'}"}
    with CrawlingCluster(folder, times, relayed=True, databases=files, server=server) as cluster:
        cluster.crawl(PROJECTS, rate)
        cluster.await_that(
            "all projects crawl", lambda: len(cluster.site.served()) >= len(PROJECTS)
        )
        for parts in outages:
            verdict.outages.append(_suffer(cluster, parts, seconds))
            _say(verdict.outages[-1].line())
        cluster.site.end_chains(PROJECTS)
        verdict.unfinished = cluster.unfinished(FINISH)
    return verdict


def main(words: Sequence[str]) -> int:
    """Run; return 0 if nothing was wrong."""
    asked = _arguments(words)
    ways = WAYS_OF_A_SERVER if asked.postgresql else WAYS
    outages = [parse(each, ways) for each in asked.what] or _alone_and_in_pairs(ways)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="outages-"))
    times = QUICK_TIMES if asked.quick_times else None
    server = PostgresServer if asked.postgresql else None
    verdict = run(folder / "cluster", outages, asked.seconds, times, asked.rate, server)
    faults = verdict.faults(asked.within)
    _say("\n".join(faults) or "good")
    _say(str(folder))
    return 1 if faults else 0


def _alone_and_in_pairs(ways: Ways) -> list[dict[str, str]]:
    alone = [{what: how} for what, found in ways.items() for how in found]
    pairs = [
        {what: next(iter(ways[what])) for what in pair} for pair in itertools.combinations(ways, 2)
    ]
    return alone + pairs


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos outages", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each is away")
    help_ = f"away together, such as taskdb,redis=killed; may be repeated; {listing()}"
    help_ += f"; with --postgresql {listing(WAYS_OF_A_SERVER)}"
    parser.add_argument("--what", action="append", default=[], help=help_)
    parser.add_argument("--postgresql", action="store_true", help="it has the databases")
    help_ = "seconds in which it must go on afterwards"
    parser.add_argument("--within", type=float, default=PATIENCE, help=help_)
    parser.add_argument("--quick-times", action="store_true", help="a lease of 2 s instead of 4")
    parser.add_argument("--rate", type=float, default=20.0, help="pages per second and project")
    parser.add_argument("--folder", type=Path, help="where data and logs are left")
    return parser.parse_args(words)


def _say(what: str) -> None:
    print(what, flush=True)  # noqa: T201


def _suffer(cluster: CrawlingCluster, parts: Mapping[str, str], seconds: float) -> SufferedOutage:
    outage = SufferedOutage(parts, seconds)
    known = cluster.processes()
    said = _said(cluster)
    with all_away(parts, cluster, WAYS_OF_A_SERVER if cluster.has_server else WAYS):
        time.sleep(seconds / 2)  # that is what an outage is
        served = _served(cluster)
        time.sleep(seconds / 2)
        outage.meanwhile = _served(cluster) - served
        outage.is_told = _is_told(cluster, parts, said)
    returned = time.monotonic()
    crawled = cluster.advancing(PROJECTS, STEPS)
    stored = grows(lambda: _stored(cluster), PROJECTS[:1], 1)
    deadline = returned + PATIENCE
    while time.monotonic() < deadline and None in (outage.resumed, outage.stored):
        after = time.monotonic() - returned
        if outage.resumed is None and crawled():
            outage.resumed = after
        if outage.stored is None and stored():
            outage.stored = after
        time.sleep(0.1)  # pages and rows are counted
    outage.fallen = [
        f"{name} (pid {pid}) ended"
        for name, pid in known.items()
        if cluster.processes().get(name) != pid
    ]
    outage.letters = _letters(cluster)
    return outage


def _served(cluster: CrawlingCluster) -> int:
    return sum(cluster.site.served().values())


def _is_told(cluster: CrawlingCluster, parts: Mapping[str, str], before: str) -> bool:
    """Return whether a log tells of any of these, or none can; blocks until one does.

    Of two that are away together, one may keep everybody from asking for the other.
    """
    if UNSEEN & set(parts.items()):
        return True
    deadline = time.monotonic() + TELLING
    while time.monotonic() < deadline:
        now = _said(cluster)
        if any(now.count(WORDS[what]) > before.count(WORDS[what]) for what in parts):
            return True
        time.sleep(0.1)  # logs are read
    return False


def _said(cluster: CrawlingCluster) -> str:
    logs = cluster.logs().values()
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)


def _stored(cluster: CrawlingCluster) -> dict[str, int]:
    """Return how many results each project has."""
    with cluster.open_database("result") as resultdb:
        return {name: resultdb.count(name) if name in resultdb.projects else 0 for name in PROJECTS}


def _letters(cluster: CrawlingCluster) -> int:
    with redis.Redis.from_url(cluster.redis.url) as client:
        return int(client.xlen("dead_letters"))
