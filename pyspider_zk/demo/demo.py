"""The demo: three schedulers crawl a real site, one is killed in the middle, nothing is missing."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.config import settings_from
from pyspider_zk.demo.completion import Completion
from pyspider_zk.demo.crawl import Crawl, on_start
from pyspider_zk.demo.outcome import DemoOutcome
from pyspider_zk.demo.parts import script
from pyspider_zk.demo.progress import Gauge, gauge
from pyspider_zk.demo.target import DemoTarget, documentation, foreign, ours
from pyspider_zk.errors import ClusterError
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.local.plan import ProcessPlan
from pyspider_zk.local.up import Interrupts, interrupts
from pyspider_zk.rpc.client import credentials_of
from pyspider_zk.rpc.router import Router

SCHEDULERS = 3
KILL_AT = 0.35  # of the expected pages
KILL_AT_UNKNOWN = 40  # pages, if nobody knows how many there are
TICK = 0.1  # seconds
JOIN_PATIENCE = 90.0  # seconds until all schedulers have joined and own all slots
START_PATIENCE = 60.0  # seconds until a project has started
TAKEOVER_PATIENCE = 60.0  # seconds
SAMPLE = 10  # missing pages to name


@dataclass(frozen=True)
class _Kill:
    """The kill of a member, and the cluster just before."""

    victim: MemberId
    before: Cluster
    at: float


@dataclass
class _Scene:
    """Everything that the steps of the demo work with; one thread."""

    target: DemoTarget
    cluster: LocalCluster
    directory: Directory
    router: Router
    crawl: Crawl
    show: Gauge
    signals: Interrupts
    kill: _Kill | None = None
    takeover: float | None = None


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
    data = Path(tempfile.mkdtemp(prefix="pyspider-zk-demo-"))
    try:
        with interrupts() as signals, _target(folder, start_url, console) as target:
            outcome = _run(target, data, console, signals)
        if outcome.complete:
            shutil.rmtree(data)
        return outcome
    finally:
        if data.exists():
            console.print(f"Logs and data are kept in {data}", markup=False, soft_wrap=True)


def _target(
    folder: Path | None, start_url: str | None, console: Console
) -> AbstractContextManager[DemoTarget]:
    if start_url:
        return nullcontext(foreign(start_url))
    chosen = folder or documentation()
    console.print(f"Walking over the files in {chosen}", markup=False, soft_wrap=True)
    return ours(chosen)


def _run(target: DemoTarget, data: Path, console: Console, signals: Interrupts) -> DemoOutcome:
    with _scene(target, data, console, signals) as scene:
        seconds = _play(scene)
        pages = scene.crawl.pages()
        outcome = _outcome(scene, pages, seconds)
    console.print(outcome.as_table())
    _name_missing(target, pages, console)
    return outcome


@contextmanager
def _scene(
    target: DemoTarget, data: Path, console: Console, signals: Interrupts
) -> Iterator[_Scene]:
    say = partial(console.print, markup=False, soft_wrap=True)
    plan = ProcessPlan(data, schedulers=SCHEDULERS, settings=settings_from(environ=os.environ))
    cluster = LocalCluster(plan, say)
    names = target.parts.names
    say(f"Crawling {target.total or 'the'} pages of {target.parts.site} in {len(names)} projects")
    with ExitStack() as open_:
        open_.callback(cluster.end, lambda: signals.several)
        cluster.start()
        settings = cluster.settings
        asking = credentials_of(settings)
        directory = open_.enter_context(Directory(settings))
        router = open_.enter_context(closing(Router(directory.read, credentials=asking)))
        crawl = open_.enter_context(closing(Crawl(cluster.addresses, settings, names)))
        show = open_.enter_context(gauge(console, target.total))
        yield _Scene(target, cluster, directory, router, crawl, show, signals)


def _play(scene: _Scene) -> float:
    """Run all steps; return the seconds that the crawl took."""
    _until(scene, lambda: _all_joined(scene), JOIN_PATIENCE, "all schedulers have joined")
    began = time.monotonic()
    _start_projects(scene)
    pace = Completion(time.monotonic())
    while not _over(scene, pace):
        _tick(scene)
        _look_at_crawl(scene, pace)
        _look_at_takeover(scene)
    return pace.last_change - began


def _over(scene: _Scene, pace: Completion) -> bool:
    taken_over = scene.kill is None or scene.takeover is not None
    return taken_over and pace.ended(time.monotonic())


def _tick(scene: _Scene) -> None:
    """Look after the processes and let a moment pass.

    Raises:
        ClusterError: somebody wants the demo to end.
    """
    if scene.signals.any:
        raise ClusterError("interrupted")
    scene.cluster.tick()
    time.sleep(TICK)


def _until(scene: _Scene, done: Callable[[], bool], patience: float, what: str) -> None:
    deadline = time.monotonic() + patience
    while not done():
        _tick(scene)
        if time.monotonic() > deadline:
            raise ClusterError(f"{patience:g} s were not enough until {what}")


def _look(scene: _Scene) -> Cluster | None:
    """Return the cluster; None while there is none to see."""
    try:
        return scene.directory.read()
    except ClusterError:
        return None


def _all_joined(scene: _Scene) -> bool:
    cluster = _look(scene)
    if cluster is None or len(cluster.members) < SCHEDULERS:
        return False
    return {slot.owner for slot in cluster.assignment.slots} == set(cluster.members)


def _start_projects(scene: _Scene) -> None:
    scene.crawl.create(script(scene.target.parts))
    scene.router.update_project()
    for project in scene.target.parts.names:
        _until(scene, partial(_accepts, scene, project), START_PATIENCE, f"{project} has started")


def _accepts(scene: _Scene, project: str) -> bool:
    try:
        return scene.router.newtask(on_start(project))
    except OSError:
        return False


def _look_at_crawl(scene: _Scene, pace: Completion) -> None:
    """Show how far it is, and kill a scheduler in the middle.

    Raises:
        ClusterError: nothing has changed for too long.
    """
    done, ahead, held = scene.crawl.done(), scene.crawl.ahead(), _held(scene)
    now = time.monotonic()
    pace.note((done, ahead), ahead.nothing and held == 0, now)
    scene.show(done, _caption(scene))
    if pace.stalled(now):
        raise ClusterError(
            f"the crawl makes no progress: {done} pages done, {ahead.tasks} tasks active,"
            f" {held} held by schedulers, {ahead.messages} messages in queues"
        )
    if scene.kill is None and done >= _middle(scene.target):
        _kill_one(scene)


def _held(scene: _Scene) -> int | None:
    """Return how many tasks the schedulers hold; None if they do not answer at the moment."""
    try:
        return scene.router.size()
    except OSError:
        return None


def _middle(target: DemoTarget) -> int:
    return KILL_AT_UNKNOWN if target.total is None else max(1, int(target.total * KILL_AT))


def _caption(scene: _Scene) -> str:
    if scene.kill is None:
        return "crawling"
    return "a scheduler was killed" if scene.takeover is None else "its slots are taken over"


def _kill_one(scene: _Scene) -> None:
    """Kill the scheduler with the most to do; another one, with a new name, takes its place."""
    before = _look(scene)
    if before is None:
        return
    own = {scene.cluster.pid(number): number for number in scene.cluster.schedulers}
    members = {id_: member.pid for id_, member in before.members.items() if member.pid in own}
    if not members:
        return
    victim = max(members, key=lambda id_: _busy(scene, before, id_))
    os.kill(members[victim], signal.SIGKILL)
    scene.kill = _Kill(victim, before, time.monotonic())
    scene.cluster.replace(own[members[victim]])


def _busy(scene: _Scene, cluster: Cluster, member: MemberId) -> int:
    """Return how many active tasks the projects of a member have."""
    record = cluster.members[member]
    projects = [name for name in scene.target.parts.names if cluster.owner_of(name) == record]
    return sum(scene.crawl.active(project) for project in projects)


def _look_at_takeover(scene: _Scene) -> None:
    """Note when the killed member owns nothing any more.

    Raises:
        ClusterError: it takes too long.
    """
    if scene.kill is None or scene.takeover is not None:
        return
    cluster, passed = _look(scene), time.monotonic() - scene.kill.at
    if cluster is not None and not owns_slots(cluster, scene.kill.victim):
        scene.takeover = passed
    elif passed > TAKEOVER_PATIENCE:
        raise ClusterError(f"after {passed:.0f} s the killed scheduler still owns slots")


def owns_slots(cluster: Cluster, member: MemberId) -> bool:
    """Return whether a member has slots; a dead one's node may stand long after it lost them."""
    return any(slot.owner == member for slot in cluster.assignment.slots)


def _outcome(scene: _Scene, pages: set[str], seconds: float) -> DemoOutcome:
    missing = scene.target.missing(pages)
    return DemoOutcome(
        expected=scene.target.total,
        crawled=len(pages),
        missing=None if missing is None else len(missing),
        schedulers=SCHEDULERS,
        killed=0 if scene.kill is None else 1,
        moved_slots=_moved(scene),
        takeover_s=None if scene.takeover is None else round(scene.takeover, 2),
        duplicate_fetches=scene.target.duplicate_fetches(),
        seconds=round(seconds, 1),
    )


def _moved(scene: _Scene) -> int:
    if scene.kill is None:
        return 0
    return len(list(scene.directory.read().moves_since(scene.kill.before)))


def _name_missing(target: DemoTarget, pages: set[str], console: Console) -> None:
    for url in sorted(target.missing(pages) or ())[:SAMPLE]:
        console.print(f"missing: {url}", markup=False, soft_wrap=True)
