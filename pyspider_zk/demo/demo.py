"""The demo: a cluster crawls a real site, parts of it are killed in the middle, none is missing."""

import json
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspider_zk.client import Client
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.events import moves_between
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.components.signals import Interrupts, interrupts
from pyspider_zk.config import settings_from
from pyspider_zk.demo import handler
from pyspider_zk.demo.crawl import DemoCrawl, projects_of, script
from pyspider_zk.demo.site import DemoSite, documentation, foreign, ours
from pyspider_zk.errors import ClusterError
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.local.plan import ProcessPlan
from pyspider_zk.terminal import tell

SCHEDULERS = 3
KILL_AT = (0.35, 0.6)  # of the expected pages: a scheduler, and then workers
KILL_AT_UNKNOWN = (40, 80)  # pages, if nobody knows how many there are
WORKERS = ("fetcher-0", "processor-0", "result-worker")
TICK = 0.1  # seconds
PATIENCE = 180.0  # seconds until schedulers have joined, projects are started, slots taken over
QUIET = 5.0  # seconds without any change; what is in queues and hands shows up by then
MISSED = 60.0  # the same while some are missing: on a busy machine a killed worker is back later
STALL = (handler.RETRIES + 1) * (handler.TIMEOUT + handler.RETRY_DELAY) + QUIET
"""Seconds without any change: a page may take so long until it is crawled or given up."""

SAMPLE = 10  # missing pages to name

Say = Callable[[str], None]


def _means(what: str) -> Any:
    """Make a field that says in words what its value is."""
    return field(metadata={"means": what})


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo's last line says.

    ``expected``, ``missing`` and ``duplicate_fetches`` are null for a site that is not ours:
    there is no folder to walk and no server whose requests could be counted. ``takeover_s`` is, and
    ``killed`` 0, if nobody had the busiest project just then.
    """

    expected: int | None = _means("pages, by a walk over the files without pyspider")
    crawled: int = _means("pages that were crawled")
    missing: int | None = _means("expected pages that were not crawled")
    schedulers: int = _means("that ran at the same time")
    killed: int = _means("of them, with SIGKILL, in the middle of the crawl")
    killed_workers: int = _means("later: fetcher, processor and result worker, at once")
    moved_slots: int = _means("slots (shares of the projects) with a new scheduler")
    takeover_s: float | None = _means("seconds until others had all slots of the killed one")
    duplicate_fetches: int | None = _means("repeated requests, for what the killed fetcher had")
    seconds: float = _means("from the start of the crawl to its end")

    @property
    def complete(self) -> bool:
        """Whether pages were crawled and none is missing."""
        return self.crawled > 0 and not self.missing

    def as_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def as_table(self) -> Table:
        """Return it as a table, with what each value means."""
        table = Table.grid(padding=(0, 2))
        for each in fields(self):
            value = getattr(self, each.name)
            told = "unknown" if value is None else str(value)
            table.add_row(each.name, told, each.metadata["means"])
        return table


@dataclass(frozen=True)
class _Scene:
    """Everything that the steps of the demo work with; one thread."""

    site: DemoSite
    cluster: LocalCluster
    directory: Directory
    crawl: DemoCrawl
    bar: Progress
    say: Say
    asked: Interrupts

    def until(self, done: Callable[[], bool], what: str) -> float:
        """Let time pass until something is done; return how many seconds it took.

        Raises:
            ClusterError: it takes too long, or somebody wants the demo to end.
        """
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            with suppress(ClusterError):  # what cannot be seen just now is not done yet
                if done():
                    return time.monotonic() - began
            self.tick()
        raise ClusterError(f"{PATIENCE:g} s were not enough until {what}")

    def tick(self) -> None:
        """Look after the processes and let a moment pass."""
        if self.asked.any:
            raise ClusterError("interrupted")
        self.cluster.tick()
        time.sleep(TICK)


def demo(folder: Path | None, start_url: str | None, console: Console) -> DemoOutcome:
    """Run the demo from start to end and print a table; blocks for minutes. Main thread only.

    The cluster's folder with its logs stays if pages are missing or the demo cannot go on.

    Args:
        folder: a folder of HTML with an index.html; None: Python's documentation.
        start_url: a page of a site that runs already, instead of a folder.
        console: where to print.

    Raises:
        ClusterError: it could not run to its end.
    """
    say: Say = partial(tell, console)
    data = Path(tempfile.mkdtemp(prefix="pyspider-zk-demo-"))
    try:
        with interrupts() as asked, _site(folder, start_url, say) as site:
            outcome = _run(site, data, console, asked)
        if outcome.complete:
            shutil.rmtree(data)
        return outcome
    finally:
        if data.exists():
            say(f"Logs and data are kept in {data}")


def _site(folder: Path | None, start_url: str | None, say: Say) -> AbstractContextManager[DemoSite]:
    if start_url:
        return nullcontext(foreign(start_url))
    chosen = folder or documentation()
    say(f"Walking over the files in {chosen}")
    return ours(chosen)


def _run(site: DemoSite, data: Path, console: Console, asked: Interrupts) -> DemoOutcome:
    with _scene(site, data, console, asked) as scene:
        _start(scene)
        outcome, missing = _crawl(scene)
    console.print(outcome.as_table())
    for url in missing[:SAMPLE]:
        scene.say(f"missing: {url}")
    return outcome


@contextmanager
def _scene(site: DemoSite, data: Path, console: Console, asked: Interrupts) -> Iterator[_Scene]:
    say: Say = partial(tell, console)
    plan = ProcessPlan(data, schedulers=SCHEDULERS, settings=settings_from(environ=os.environ))
    cluster, projects = LocalCluster(plan, say), projects_of(site)
    columns = TextColumn("crawling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    say(f"Starting {SCHEDULERS} schedulers, to crawl {site.start} in {len(projects)} projects")
    try:
        cluster.start()
        with (
            Directory(cluster.settings) as directory,
            Progress(*columns, console=console) as bar,
        ):
            bar.add_task("", total=None if site.expected is None else len(site.expected))
            crawl = DemoCrawl.open(cluster.addresses, projects)
            yield _Scene(site, cluster, directory, crawl, bar, say, asked)
    finally:
        cluster.end(lambda: asked.several)


def _start(scene: _Scene) -> None:
    """Wait until all slots are owned, and start the projects as an operator would."""
    scene.until(lambda: _all_joined(scene.directory.read()), "all schedulers have joined")
    scene.crawl.create(script(scene.site.start, scene.crawl.projects))
    with Client(scene.cluster.settings) as client:
        batch = client.start(names=scene.crawl.projects)
        scene.until(lambda: client.batch(batch.id).ended, "the projects are started")


def _all_joined(cluster: Cluster) -> bool:
    owners = {slot.owner for slot in cluster.assignment.slots}
    return len(cluster.members) == SCHEDULERS and owners == set(cluster.members)


def _crawl(scene: _Scene) -> tuple[DemoOutcome, list[str]]:
    """Crawl to the end, with deaths on the way; return what came of it, and what is missing."""
    began = time.monotonic()
    expected, asked = scene.site.expected, scene.site.asked
    first, second = (
        KILL_AT_UNKNOWN if expected is None else (max(1, int(len(expected) * at)) for at in KILL_AT)
    )
    _follow(scene, first)
    before = scene.directory.read()
    takeover = _kill_one(scene, before)
    _follow(scene, second)
    killed_workers = _kill_workers(scene)
    ended = _follow(scene)
    pages = scene.crawl.pages()
    missing = None if expected is None else sorted(expected - pages)
    moves = moves_between(before.assignment, scene.directory.read().assignment)
    outcome = DemoOutcome(
        expected=None if expected is None else len(expected),
        crawled=len(pages),
        missing=None if missing is None else len(missing),
        schedulers=SCHEDULERS,
        killed=0 if takeover is None else 1,
        killed_workers=killed_workers,
        moved_slots=sum(moves.counts.values()),
        takeover_s=takeover,
        duplicate_fetches=None if asked is None else len(asked) - len(set(asked)),
        seconds=round(ended - began, 1),
    )
    return outcome, missing or []


def _follow(scene: _Scene, enough: float = math.inf) -> float:
    """Show how far the crawl is until so many pages are done, or until its end, and when it was.

    Raises:
        ClusterError: nothing has changed for too long.
    """
    last, changed, told = None, time.monotonic(), 0.0
    while True:
        seen, now = scene.crawl.look(), time.monotonic()
        if seen != last:
            last, changed, told = seen, now, now
        done, active = seen
        scene.bar.update(scene.bar.task_ids[0], completed=done)
        quiet = QUIET if done >= len(scene.site.expected or ()) else MISSED
        if done >= enough or (active == 0 and now - changed >= quiet):
            return changed
        if now - changed >= STALL:
            raise ClusterError(f"no progress: {done} pages are done, {active} tasks are active")
        if active and now - told >= QUIET:
            told = now
            scene.say(waiting_for(active, scene.crawl.next_retry()))
        scene.tick()


def waiting_for(pages: int, retry: float | None) -> str:
    """Return what is waited for, in words.

    Args:
        pages: how many are not done.
        retry: in how many seconds the next is fetched again; None: all are on their way.
    """
    what = f"Waiting for {pages} page{'' if pages == 1 else 's'}"
    if retry is None:
        return f"{what}; a fetch may take {handler.TIMEOUT} s"
    return f"{what}; the next retry is in {math.ceil(retry)} s"


def _kill_one(scene: _Scene, before: Cluster) -> float | None:
    """Kill the scheduler of the busiest project; another, with a new name, takes its place.

    Returns:
        The seconds until the killed one owned nothing; None if nobody could be killed.
    """
    numbers = {scene.cluster.pid(number): number for number in scene.cluster.schedulers}
    owner = before.owner_of(max(scene.crawl.projects, key=scene.crawl.active))
    if owner is None or owner.pid not in numbers:
        return None
    (victim,) = (member for member, each in before.members.items() if each == owner)
    os.kill(owner.pid, signal.SIGKILL)
    scene.cluster.replace(numbers[owner.pid])
    scene.say(f"Scheduler {victim.number} was killed; a new one takes its place")
    seconds = scene.until(
        lambda: not scene.directory.read().slot_counts().get(victim),
        "the slots of the killed scheduler are taken over",
    )
    scene.say(f"Its slots are taken over, {seconds:.1f} s later")
    return round(seconds, 2)


def _kill_workers(scene: _Scene) -> int:
    """Kill a fetcher, a processor and a result worker, which are started again; return how many."""
    pids = [pid for name in WORKERS if (pid := scene.cluster.component_pid(name)) is not None]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    scene.say("A fetcher, a processor and the result worker were killed; others go on with theirs")
    return len(pids)
