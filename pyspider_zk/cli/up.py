"""Commands of the one-machine cluster: up, scale, demo."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console, RenderableType
from rich.live import Live

from pyspider_zk.cli.checks import CONFIG_FILE
from pyspider_zk.cli.status import REFRESH, Observer, Overview, headline, screenful
from pyspider_zk.cli.target import (
    ClusterTarget,
    GlobalOptions,
    message_queue_of,
    of_cluster,
    settings_of,
    target,
    with_global_options,
)
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.components.signals import Interrupts, interrupts
from pyspider_zk.components.wiring import names_zookeeper
from pyspider_zk.config import SASL, Settings
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.errors import ClusterError, ConfigError, Mismatch, MissingService, Unavailable
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.listening import HIGHEST_PORT
from pyspider_zk.local.cluster import LocalCluster
from pyspider_zk.local.plan import RENDERER_VARIABLE, ProcessPlan
from pyspider_zk.rendering.chromium import chromium_program
from pyspider_zk.terminal import cell, say, tell
from pyspider_zk.zookeeper.connection import connected

TICK = 0.2  # seconds between two looks at the processes of `up`
POLL = 0.3  # seconds between two checks of scale

_SCHEDULERS = click.IntRange(1, MOST_SLOTS)
"""How many may be asked for: more have no slot to own."""

_NO_TLS = (
    "tls, scheme: the ZooKeeper that `up` starts has neither TLS nor SASL; leave them"
    " out, or name another ZooKeeper with --zookeeper"
)


@with_global_options(
    zookeeper_option="a running ZooKeeper; default: start one",
    message_queue="a running Redis; default: start one",
    taskdb="database URL; default: a file",
    projectdb="database URL; default: a file",
    resultdb="database URL; default: a file",
    data_path="the folder for data and logs; default: ./data",
)
@click.command()
@click.option("--schedulers", default=ProcessPlan.schedulers, show_default=True, type=_SCHEDULERS)
@click.option("--fetchers", default=ProcessPlan.fetchers, show_default=True, type=click.IntRange(0))
@click.option(
    "--processors", default=ProcessPlan.processors, show_default=True, type=click.IntRange(0)
)
@click.option(
    "--renderers",
    type=click.IntRange(0),
    help="default: 1, or 0 without Chromium and Playwright, or with --phantomjs-proxy",
)
@click.option(
    "--webui-port",
    type=click.IntRange(1, HIGHEST_PORT),
    help="default: 5000, or a free one if that is taken",
)
@click.pass_context
def up(
    ctx: click.Context, /, webui_port: int | None, renderers: int | None, **numbers: int
) -> None:
    """Run a whole cluster on this machine, until Ctrl-C.

    Starts ZooKeeper, Redis and databases unless you name them by URL. A second `up` in the same
    folder continues where the first stopped.
    """
    console = Console()
    numbers["renderers"] = _renderers(ctx.obj, renderers)
    plan = _plan(ctx, webui_port=webui_port, **numbers)
    wish = None
    if ctx.get_parameter_source("schedulers") is not ParameterSource.DEFAULT:
        wish = plan.schedulers  # in place of an earlier `scale`
    cluster = LocalCluster(plan, report=partial(tell, console))
    with interrupts() as signals:
        try:
            cluster.start()
            _run(cluster, wish, console, signals)
            console.print("Ending; Ctrl-C again ends at once.")
        finally:
            cluster.end(hurried=lambda: signals.several)


@of_cluster
@click.command()
@click.argument("schedulers", type=_SCHEDULERS)
@click.option("--wait/--no-wait", default=True, show_default=True, help="wait until they run")
@click.option("--timeout", default=60.0, show_default=True, help="seconds to wait at most")
@click.pass_obj
def scale(options: dict[str, Any], schedulers: int, wait: bool, timeout: float) -> None:
    """Change how many schedulers a running `up` has."""
    settings = target(options).settings
    with connected(settings) as connection:
        ScaleNode(connection, Tree(settings.root)).set(schedulers)
    if wait:
        _await_members(settings, schedulers, timeout)
        click.echo(f"{schedulers} schedulers run")


@click.command()
@click.option(
    "--site",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="a folder of HTML pages to crawl; default: Python's documentation",
)
@click.option("--start-url", help="the first page of a running site to crawl")
def demo(site: Path | None, start_url: str | None) -> None:
    """Crawl a real site; kill one of three schedulers."""
    from pyspider_zk.demo.demo import demo as run_demo

    if site is not None and start_url is not None:
        raise click.UsageError("--site and --start-url exclude each other")
    outcome = run_demo(site, start_url, Console())
    click.echo(outcome.as_json())
    if not outcome.complete:
        raise SystemExit(1)


def _plan(ctx: click.Context, **given: Any) -> ProcessPlan:
    options, config = ctx.obj, ctx.meta.get(CONFIG_FILE)
    settings, is_named = settings_of(options), names_zookeeper(options)
    if config == "<stdin>":
        raise ConfigError(["--config: `up` needs a file, because its processes read it again"])
    if not is_named and (settings.tls or settings.scheme == SASL):
        raise ConfigError([_NO_TLS])
    return ProcessPlan(
        folder=Path(options["data_path"]),
        zookeeper=f"{settings.hosts}{settings.root}" if is_named else None,
        message_queue=message_queue_of(options),
        config=Path(config) if config else None,
        settings=settings,
        options=_shared_options(options),
        environ=_shared_environ(options),
        **{name: options[name] for name in DATABASES},
        **given,
    )


def _shared_options(options: GlobalOptions) -> tuple[str, ...]:
    path = "--add-sys-path" if options["add_sys_path"] else "--not-add-sys-path"
    return ("--logging-config", str(options["logging_config"]), path)


def _shared_environ(options: GlobalOptions) -> dict[str, str]:
    proxy = options["phantomjs_proxy"]
    renderer = {RENDERER_VARIABLE: proxy} if proxy else {}
    return {"QUEUE_MAXSIZE": str(options["queue_maxsize"]), **renderer}


def _renderers(options: dict[str, Any], asked: int | None) -> int:
    """Return how many renderers to start.

    Raises:
        MissingService: some are asked for, and cannot be.
    """
    wanted = (0 if options["phantomjs_proxy"] else 1) if asked is None else asked
    try:
        if wanted:
            chromium_program(os.environ)
    except MissingService as missing:
        if asked:
            raise
        say(f"No renderer, so tasks with fetch_type='js' fail: {missing}", err=True)
        return 0
    return wanted


def _run(cluster: LocalCluster, wish: int | None, console: Console, signals: Interrupts) -> None:
    """Look after a started cluster until a signal arrives."""
    tell(console, f"Web UI: {cluster.addresses.webui}   logs: {cluster.plan.logs}")
    if cluster.plan.targets is not None:
        tell(console, f"Metrics: see {cluster.plan.targets}")
    where = ClusterTarget(cluster.settings, cluster.addresses.message_queue)
    with (
        connected(cluster.settings) as connection,
        Observer(where) as observer,
        screen(observer.read, console) as show,
    ):
        node = ScaleNode(connection, Tree(cluster.settings.root))
        if wish is not None:
            node.set(wish)
        refreshed = 0.0
        while not signals.any:
            cluster.tick()
            if time.monotonic() - refreshed >= REFRESH:
                refreshed = time.monotonic()
                follow(cluster, node)
                show()
            time.sleep(TICK)


def follow(cluster: LocalCluster, node: ScaleNode) -> None:
    """Run as many schedulers as requested; without a response nothing changes."""
    try:
        wish = node.get()
    except ClusterError:
        return
    if wish is not None and wish != len(cluster.schedulers):
        cluster.scale(wish)


@contextmanager
def screen(read: Callable[[], Overview], console: Console) -> Iterator[Callable[[], None]]:
    """Give the function that shows what is read: in place on a terminal, or a line per change."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda: live.update(_seen(lambda: screenful(read(), console.width)), refresh=True)
        return
    last: RenderableType = ""

    def show() -> None:
        nonlocal last
        line = _seen(lambda: headline(read().cluster))
        if line != last:
            tell(console, line)
            last = line

    yield show


def _seen(look: Callable[[], RenderableType]) -> RenderableType:
    """Return what there is to see, or why nothing is."""
    try:
        return look()
    except Mismatch:  # no cluster in ZooKeeper yet: its first scheduler founds it
        return "The schedulers are starting ..."
    except ClusterError as error:
        return cell(error)


def _await_members(settings: Settings, schedulers: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    with Directory(settings) as directory:
        while (running := len(directory.members())) != schedulers:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{running} schedulers run after {timeout:g} s, not {schedulers}:"
                    " is there an `up` that runs this cluster? See its logs"
                )
            time.sleep(POLL)
