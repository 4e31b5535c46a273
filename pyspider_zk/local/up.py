"""``pyspider-zk up``: run the embedded cluster in the foreground until a signal ends it."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live

from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, Mismatch
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.local.plan import ProcessPlan
from pyspider_zk.terminal import cell, tell

TICK = 0.2  # seconds
REFRESH = 1.0  # seconds
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ScaleRequest(Protocol):
    """The requested number of schedulers."""

    def get(self) -> int | None:
        """Return it, or None without a request; called every second, so return within one."""

    def set(self, schedulers: int) -> None:
        """Request a number."""


class LiveView(Protocol):
    """View of the running cluster; called every second, so return within one."""

    def table(self) -> RenderableType:
        """Return the table for a terminal."""

    def line(self) -> str:
        """Return one line for a log; it is printed when it changes."""


OpenView = Callable[[Settings, str], AbstractContextManager[LiveView]]
"""Opens a view of the cluster with these settings and this message queue."""


class Interrupts:
    """Counter of the signals that end the cluster.

    A plain count, because a signal handler runs between any two steps of the main thread, where
    a lock may be held.
    """

    def __init__(self) -> None:
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether a signal has arrived."""
        return self._count > 0

    @property
    def several(self) -> bool:
        """Whether several signals have arrived: end now."""
        return self._count > 1

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Count a signal; the signal handler."""
        self._count += 1


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count Ctrl-C, SIGTERM and SIGHUP instead of dying from them. Main thread only."""
    counter = Interrupts()
    former = {number: signal.signal(number, counter.note) for number in ENDING_SIGNALS}
    try:
        yield counter
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def up(plan: ProcessPlan, open_view: OpenView, console: Console) -> None:
    """Run the cluster until Ctrl-C or SIGTERM; a second one ends it at once.

    Blocks. Main thread only. When it returns, all processes that it started have ended.

    Args:
        plan: what to start.
        open_view: opens the view, once ZooKeeper answers.
        console: where to print.

    Raises:
        ClusterError: it cannot start, or cannot go on.
    """
    cluster = LocalCluster(plan, report=partial(tell, console))
    with interrupts() as signals:
        try:
            cluster.start()
            _run(cluster, open_view, console, signals)
            console.print("Ending; Ctrl-C again ends at once.")
        finally:
            cluster.end(hurried=lambda: signals.several)


def _run(cluster: LocalCluster, open_view: OpenView, console: Console, signals: Interrupts) -> None:
    tell(console, f"Web UI: {cluster.addresses.webui}   logs: {cluster.plan.logs}")
    if cluster.plan.targets is not None:
        tell(console, f"Metrics: see {cluster.plan.targets}")
    with ExitStack() as open_:
        scale = open_.enter_context(_scale(cluster.settings))
        if cluster.plan.insist:
            scale.set(cluster.plan.schedulers)
        view = open_.enter_context(open_view(cluster.settings, cluster.addresses.message_queue))
        screen = open_.enter_context(_screen(view, console))
        refreshed = 0.0
        while not signals.any:
            cluster.tick()
            if time.monotonic() - refreshed >= REFRESH:
                refreshed = time.monotonic()
                follow(cluster, scale)
                screen()
            time.sleep(TICK)


def follow(cluster: LocalCluster, scale: ScaleRequest) -> None:
    """Run as many schedulers as requested; without a response nothing changes."""
    try:
        wish = scale.get()
    except ClusterError:
        return
    if wish is not None and wish != len(cluster.schedulers):
        cluster.scale(wish)


@contextmanager
def _scale(settings: Settings) -> Iterator[ScaleRequest]:
    node = ScaleNode(settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()


@contextmanager
def _screen(view: LiveView, console: Console) -> Iterator[Callable[[], None]]:
    """Return the function that updates the view: in place, or a line per change."""
    if not console.is_terminal:
        yield _printer(view, console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda: live.update(_seen(view.table), refresh=True)


def _printer(view: LiveView, console: Console) -> Callable[[], None]:
    last: RenderableType = ""

    def show() -> None:
        nonlocal last
        line = _seen(view.line)
        if line != last:
            tell(console, line)
            last = line

    return show


def _seen(look: Callable[[], RenderableType]) -> RenderableType:
    """Return what there is to see, or why nothing is."""
    try:
        return look()
    except Mismatch:  # no cluster in ZooKeeper yet: its first scheduler founds it
        return "The schedulers are starting ..."
    except ClusterError as error:
        return cell(error)
