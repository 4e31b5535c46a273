"""``python -m tests.fuzz catalogue``: all of the catalogue, a sample, or each entry alone.

A cluster crawls, poison is put in in groups, and what came of it must be shown.
"""

import argparse
import itertools
import logging
import os
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fuzz.catalogue import everything, planned
from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip
from tests.fuzz.judge import say
from tests.fuzz.raw_databases import KeptOutError
from tests.fuzz.sight import Sight
from tests.support.crawling_cluster import CrawlingCluster
from tests.support.database_servers import DatabaseServer, PostgresServer

PROGRESS = 120.0  # seconds within which every healthy project must crawl on
STEPS = 2  # pages of each healthy project after a group
SHOWN_SOON = 10.0  # seconds until what takes a shared thing away is mended, shown or not
SHOWN = 120.0  # seconds until everything must be shown
FINISH = 240.0  # seconds until all pages must be crawled once all poison is in
SLOW = 2.0  # seconds that an entry may take without a word
VISITOR = "scheduler-up-3"


@dataclass
class PoisonVerdict:
    """What came of a run.

    Attributes:
        put: how many entries were put in.
        fatal: groups after which something had ended or stood still, and what.
        hidden: entries that were shown nowhere.
        shown: how many were shown in which place.
        faults: what else is wrong at the end.
    """

    put: int = 0
    fatal: list[tuple[list[Poison], str]] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    shown: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.fatal or self.hidden or self.faults)

    def lines(self) -> list[str]:
        said = [f"{self.put} entries were put in; shown: {self.shown}"]
        for group, what in self.fatal:
            said.append(f"FATAL, one of {len(group)}: {what}")
            said += [f"    {entry}" for entry in group]
        said += [f"HIDDEN: {entry}" for entry in self.hidden]
        return [*said, *(f"FAULT: {fault}" for fault in self.faults)]


class Poisoning:
    """A cluster while it is poisoned. Threads: one."""

    def __init__(self, cluster: CrawlingCluster, grip: Grip) -> None:
        self.cluster = cluster
        self.grip = grip
        self.sight = Sight(grip)
        self.puts: list[tuple[Poison, Put]] = []

    def __enter__(self) -> "Poisoning":
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.sight.close()

    def begin(self) -> None:
        """Let the healthy projects crawl."""
        say("the cluster stands")
        self.cluster.crawl(self.grip.healthy)
        crawl = self.cluster.advancing(self.grip.healthy, STEPS)
        self.cluster.await_that("the healthy projects crawl", crawl, PROGRESS)

    def put(self, group: Sequence[Poison]) -> str:
        """Put a group in; return what is wrong afterwards, or nothing."""
        mine: list[tuple[Poison, Put]] = []
        last = False
        for entry in sorted(group, key=lambda one: one.mend is not None):
            if entry.mend and not last:  # these take away what the others need
                last = True
                self.grip.settle()
            try:
                mine.append(self._put(entry))
            except RuntimeError:
                if not self.cluster.changes():
                    raise  # it is the suite's own fault
                break
        if not last and not self.cluster.changes():
            self.grip.settle()
        self.puts += mine
        say(f"{len(group)} entries are in")
        mended = [(entry, put) for entry, put in mine if entry.mend]
        if mended:
            self._mend(mended)
        trouble = self.trouble()
        self.sight.look()  # what is shown now may give way to what comes later
        return trouble

    def trouble(self) -> str:
        """Return what ended or stands still."""
        before = self.cluster.site.served()
        goes_on = self.cluster.advancing(self.grip.healthy, STEPS)
        deadline = time.monotonic() + PROGRESS
        while not self.cluster.changes():
            if goes_on():
                return ""
            if time.monotonic() > deadline:
                now = self.cluster.site.served()
                still = [name for name in self.grip.healthy if now[name] < before[name] + STEPS]
                return f"stands still for {PROGRESS:g} s: {', '.join(still)}"
            time.sleep(0.1)  # pages are counted by the site's threads
        return "; ".join(self.cluster.changes())

    def _put(self, entry: Poison) -> tuple[Poison, Put]:
        began = time.monotonic()
        try:
            return entry, entry.put(self.grip)
        except KeptOutError as error:
            answer = Put(str(entry), refused=True, said=str(error))
            return replace(entry, shown=(Place.ANSWER,), mend=None), answer
        except Exception as error:
            raise RuntimeError(f"could not be put in: {entry}: {error}") from error
        finally:
            if (took := time.monotonic() - began) > SLOW:
                say(f"{took:.1f} s to put in: {entry}")

    def _mend(self, mended: Sequence[tuple[Poison, Put]]) -> None:
        """Do what an operator does, as soon as it is shown."""
        deadline = time.monotonic() + SHOWN_SOON
        left = list(mended)
        while left and time.monotonic() < deadline:
            self.sight.look()
            shown = [pair for pair in left if self.sight.place_of(*pair)]
            for entry, put in shown:
                self.puts.remove((entry, put))
                self.puts.append((_seen(entry), put))
            left = [pair for pair in left if pair not in shown]
            time.sleep(0.2 if left else 0)
        for entry, _ in mended:
            assert entry.mend is not None
            entry.mend(self.grip)

    # --- a takeover ----------------------------------------------------------------------------

    def visit(self, entries: Sequence[Poison]) -> str:
        """Let a fourth scheduler join and die, so that all that was put in is read anew."""
        self.grip.write(self.grip.tree.scale, b"4")
        self.cluster.await_that("a fourth scheduler has slots", self._has_visitor)
        say("a fourth scheduler has slots")
        for entry in entries:
            self.puts.append(self._put(entry))
        pid = self.cluster.processes()[VISITOR]
        os.kill(pid, signal.SIGKILL)
        self.grip.write(self.grip.tree.scale, b"3")
        return self.trouble()

    def _has_visitor(self) -> bool:
        names = set(self.grip.zk.get_children(self.grip.tree.members)) - set(self.grip.members)
        for name in names:
            self.grip.visitor = name
            if name.startswith("3-") or VISITOR in self.cluster.processes():
                try:
                    if len(self.grip.slots_of_visitor()) > 10:
                        return True
                except Exception:  # noqa: S112 - junk may stand there for a moment
                    continue
        return False

    # --- the end -------------------------------------------------------------------------------

    def finish(self, verdict: PoisonVerdict) -> None:
        """Crawl to the end, look at everything, and judge."""
        self.cluster.crawl(self.grip.late)
        self.cluster.site.end_chains([*self.grip.healthy, *self.grip.late])
        verdict.faults += self.cluster.unfinished(FINISH)
        say("what can be crawled is crawled")
        self._await_shown(verdict)
        verdict.faults += [
            f"{name} cannot be seen: {why}" for name, why in self.sight.faults.items()
        ]
        verdict.faults += self._pages()
        verdict.faults += self._alerts()
        verdict.faults += self.cluster.changes()

    def _await_shown(self, verdict: PoisonVerdict) -> None:
        deadline = time.monotonic() + SHOWN
        while True:
            self.sight.look()
            places = [(entry, put, self.sight.place_of(entry, put)) for entry, put in self.puts]
            hidden = [
                f"{entry} (as {put.token[:60]!r}; {put.said})"
                for entry, put, at in places
                if not at
            ]
            if not (hidden or self.sight.faults) or time.monotonic() > deadline:
                break
            time.sleep(1)  # logs and databases are read
        verdict.hidden += hidden
        verdict.put += len(places)
        for _, _, place in places:
            if place:
                verdict.shown[place.value] = verdict.shown.get(place.value, 0) + 1

    def _pages(self) -> list[str]:
        """Return which pages do not answer as they should."""
        faults = []
        project = self.grip.healthy[0]
        for path in (
            "/",
            "/queues",
            "/counter",
            "/api/v1/overview",
            "/api/v1/projects",
            "/api/v1/events",
            "/api/v1/dead-letters",
            "/api/v1/failures",
            "/api/v1/failures/tasks",
            "/api/v1/batches",
            "/api/v1/assignment",
            f"/api/v1/results?project={project}",
            f"/api/v1/tries?project={project}",
        ):
            refused, said = self.grip.web("GET", path)
            if refused:
                faults.append(f"GET {path}: {said}")
        return faults

    def _alerts(self) -> list[str]:
        """Return which alerts are missing, of what was shown elsewhere."""
        kinds = {alert["kind"] for alert in self.sight.overview.get("alerts", ())}
        wanted = {
            "unreadable": self.sight.unreadable or self.sight.queues,
            "quarantine": self.sight.quarantine,
        }
        return [
            f"the overview has no alert {kind!r}"
            for kind, found in wanted.items()
            if found and kind not in kinds
        ]


def _seen(entry: Poison) -> Poison:
    """Return an entry that was seen before it was mended away."""
    return replace(entry, shown=(Place.NOBODY,))


def run(
    folder: Path,
    grouped: Sequence[Sequence[Poison]],
    visits: Sequence[Poison],
    server: type[DatabaseServer] | None = None,
) -> PoisonVerdict:
    """Poison clusters until all groups were put in; a new cluster after each fatal group.

    Args:
        visits: what is put in while a fourth scheduler runs.
        server: what has the databases; None: they are files.
    """
    verdict = PoisonVerdict()
    left = [list(group) for group in grouped]
    for number in itertools.count():
        cluster = CrawlingCluster(folder / f"cluster-{number}", server=server)
        if _one_cluster(cluster, left, visits, verdict):
            return verdict
    raise AssertionError("there are endless numbers")


def _one_cluster(
    made: CrawlingCluster,
    left: list[list[Poison]],
    visits: Sequence[Poison],
    verdict: PoisonVerdict,
) -> bool:
    """Poison one cluster until something is fatal; tell whether it got to its end."""
    with (
        made as cluster,
        Grip(cluster) as grip,
        Poisoning(cluster, grip) as poisoning,
    ):
        while left:
            group = left.pop(0)
            trouble = poisoning.put(group)
            if trouble:
                _note(verdict, group, trouble)
                return False
        trouble = poisoning.visit(visits)
        if trouble:
            _note(verdict, visits, trouble)
        else:
            poisoning.finish(verdict)
        return True


def _note(verdict: PoisonVerdict, group: Sequence[Poison], trouble: str) -> None:
    say(f"FATAL: {trouble}")
    verdict.fatal.append((list(group), trouble))


def culprits(
    folder: Path, group: Sequence[Poison], server: type[DatabaseServer] | None = None
) -> list[Poison]:
    """Return those of a fatal group that are fatal alone, each found in clusters of its own."""
    if len(group) == 1:
        return list(group)
    middle = len(group) // 2
    found: list[Poison] = []
    for half in (group[:middle], group[middle:]):
        look = folder / f"look-{next(_looks)}"
        if _is_fatal(CrawlingCluster(look, server=server), half):
            say(f"fatal: one of {len(half)}, such as {half[0]}")
            found += culprits(folder, half, server)
    return found


_looks = itertools.count()


def _is_fatal(made: CrawlingCluster, group: Sequence[Poison]) -> bool:
    with (
        made as cluster,
        Grip(cluster) as grip,
        Poisoning(cluster, grip) as poisoning,
    ):
        return bool(poisoning.put(group) or poisoning.trouble())


def main(words: Sequence[str]) -> int:
    """Run; return 0 if nothing was wrong, 1 if something was, 2 if there is nothing to put in."""
    asked = _arguments(words)
    entries = _entries(asked)
    if not entries:
        but = f" and none of {asked.without}" if asked.without else ""
        say(f"no entry's name holds {asked.only!r}{but}: give another word")
        return 2
    logging.getLogger("pyspider_zk").setLevel(logging.CRITICAL)  # it says what all others say
    grouped, visits = planned(entries, asked.seed, asked.group, short=asked.short)
    count = sum(map(len, [*grouped, visits]))
    say(f"seed {asked.seed}: {count} of {len(entries)} entries in {len(grouped)} groups")
    began = time.monotonic()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="poison-"))
    server = PostgresServer if asked.postgresql else None
    verdict = run(folder, grouped, visits, server)
    say("\n".join(verdict.lines()))
    if asked.bisect:
        for group, what in verdict.fatal:
            for entry in culprits(folder, group, server):
                say(f"CULPRIT: {entry}: {what}")
    say(f"{'good' if verdict.good else 'BAD'} after {time.monotonic() - began:.0f} s; {folder}")
    return 0 if verdict.good else 1


def _entries(asked: argparse.Namespace) -> list[Poison]:
    return [
        entry
        for entry in everything()
        if asked.only in str(entry) and not any(text in str(entry) for text in asked.without)
    ]


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz catalogue", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--short", action="store_true", help="a sample that covers every surface")
    parser.add_argument("--only", default="", help="entries whose name holds this")
    parser.add_argument("--without", action="append", default=[], help="and not this")
    parser.add_argument("--group", type=int, default=40, help="how many are put in at once")
    parser.add_argument("--bisect", action="store_true", help="name those that are fatal alone")
    parser.add_argument("--postgresql", action="store_true", help="it has the databases")
    parser.add_argument("--folder", type=Path, help="where data and logs are left")
    return parser.parse_args(words)
