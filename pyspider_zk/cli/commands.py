"""The cluster's own commands: status, up, scale, demo, and those of other modules."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console, RenderableType
from rich.live import Live

from pyspider_zk.cli.assignment import ASSIGNMENT
from pyspider_zk.cli.backup import backup, restore
from pyspider_zk.cli.batches import batches, one_batch
from pyspider_zk.cli.cluster_settings import settings
from pyspider_zk.cli.dead_letters import dead_letters
from pyspider_zk.cli.doctor import doctor
from pyspider_zk.cli.events import events
from pyspider_zk.cli.group import CONFIG_FILE
from pyspider_zk.cli.operations import OPERATIONS
from pyspider_zk.cli.overview import Observer, Overview
from pyspider_zk.cli.projects import projects, route
from pyspider_zk.cli.protect import protect
from pyspider_zk.cli.slots import slots
from pyspider_zk.cli.status import headline, render
from pyspider_zk.cli.target import (
    ClusterTarget,
    settings_of,
    target,
    with_global_options,
)
from pyspider_zk.cli.upgrade import upgrade
from pyspider_zk.cli.users import user
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import names_zookeeper
from pyspider_zk.config import SASL, Settings
from pyspider_zk.errors import ClusterError, ConfigError, MissingService, Unavailable
from pyspider_zk.listening import HIGHEST_PORT
from pyspider_zk.local.plan import ProcessPlan
from pyspider_zk.rendering.chromium import chromium_program
from pyspider_zk.terminal import say

REFRESH = 1.0  # seconds between two updates of --watch
POLL = 0.3  # seconds between two checks of scale

_DATABASES = ("taskdb", "projectdb", "resultdb")
_PORT = click.IntRange(1, HIGHEST_PORT)


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper",
    message_queue="the cluster's message queue",
    data_path="the data folder of `up`",
)
@click.command()
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
@click.option("--watch", is_flag=True, help="update every second, until Ctrl-C")
@click.pass_obj
def status(options: dict[str, Any], as_json: bool, watch: bool) -> None:
    """Show members, components and queues.

    Without --zookeeper it shows the cluster that `pyspider-zk up` runs in this folder.
    """
    show = _print_json if as_json else _print_tables
    if watch:
        _watch(target(options), show if as_json or not sys.stdout.isatty() else None)
        return
    with Observer(target(options)) as observer:
        show(observer.read())


@with_global_options(
    zookeeper_option="a running ZooKeeper; default: start one",
    message_queue="a running Redis; default: start one",
    taskdb="database URL; default: a file",
    projectdb="database URL; default: a file",
    resultdb="database URL; default: a file",
    data_path="the folder for data and logs; default: ./data",
)
@click.command()
@click.option(
    "--schedulers", default=ProcessPlan.schedulers, show_default=True, type=click.IntRange(1)
)
@click.option("--fetchers", default=ProcessPlan.fetchers, show_default=True, type=click.IntRange(0))
@click.option(
    "--processors", default=ProcessPlan.processors, show_default=True, type=click.IntRange(0)
)
@click.option(
    "--renderers",
    type=click.IntRange(0),
    help="default: 1, or 0 without Chromium and Playwright, or with --phantomjs-proxy",
)
@click.option("--webui-port", type=_PORT, help="default: 5000, or a free one if that is taken")
@click.pass_context
def up(
    ctx: click.Context, /, webui_port: int | None, renderers: int | None, **numbers: int
) -> None:
    """Run a whole cluster on this machine, until Ctrl-C.

    Starts ZooKeeper, Redis and databases unless you name them by URL. A second `up` in the same
    folder continues where the first stopped.
    """
    from pyspider_zk.local.up import up as run_up

    insist = ctx.get_parameter_source("schedulers") is not ParameterSource.DEFAULT
    numbers["renderers"] = _renderers(ctx.obj, renderers)
    plan = _plan(ctx, webui_port=webui_port, insist=insist, **numbers)
    run_up(plan, _live_view, Console())


@with_global_options(
    zookeeper_option="the cluster's ZooKeeper",
    data_path="the data folder of `up`",
)
@click.command()
@click.argument("schedulers", type=click.IntRange(1))
@click.option("--wait/--no-wait", default=True, show_default=True, help="wait until they run")
@click.option("--timeout", default=60.0, show_default=True, help="seconds to wait at most")
@click.pass_obj
def scale(options: dict[str, Any], schedulers: int, wait: bool, timeout: float) -> None:
    """Change how many schedulers a running `up` has."""
    where = target(options)
    _request_scale(where, schedulers)
    if wait:
        _await_members(where, schedulers, timeout)
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


OWN = [
    *(status, doctor, up, scale, demo, dead_letters, protect, user),
    *(backup, restore, slots, settings, upgrade, *ASSIGNMENT),
    *(*OPERATIONS, batches, one_batch, projects, route, events),
]


def _print_json(overview: Overview) -> None:
    click.echo(json.dumps(overview.as_dict()))
    _raise_fault(overview)


def _print_tables(overview: Overview) -> None:
    Console(width=None if sys.stdout.isatty() else 160).print(_picture(overview))
    _raise_fault(overview)


def _raise_fault(overview: Overview) -> None:
    if overview.fault is not None:
        raise overview.fault


def _picture(overview: Overview) -> RenderableType:
    return render(overview.cluster, overview.queues)


def _watch(where: ClusterTarget, show: Callable[[Overview], None] | None) -> None:
    """Show the cluster every second until Ctrl-C: one after the other, or (None) in place."""
    with _until_interrupted() as ends, Observer(where) as observer:
        if show is not None:
            _repeat(lambda: show(observer.read()), ends)
            return
        with Live(auto_refresh=False) as live:
            view = _View(observer)
            _repeat(lambda: live.update(view.table(), refresh=True), ends)


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """Give the event that Ctrl-C sets; what fails after it is of no interest.

    kazoo mistakes an interruption in the middle of a request for a lost session.
    """
    ends = threading.Event()
    with on_signals({signal.SIGINT: ends.set}):
        try:
            yield ends
        except ClusterError:
            if not ends.is_set():
                raise


def _repeat(step: Callable[[], None], ends: threading.Event) -> None:
    step()
    while not ends.wait(REFRESH):
        step()


class _View:
    """What ``up`` shows of its cluster."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def table(self) -> RenderableType:
        return _picture(self._observer.read())

    def line(self) -> str:
        return headline(self._observer.read().cluster)


@contextmanager
def _live_view(settings: Settings, message_queue: str) -> Iterator[_View]:
    with Observer(ClusterTarget(settings, message_queue)) as observer:
        yield _View(observer)


def _plan(ctx: click.Context, **given: Any) -> ProcessPlan:
    options = ctx.obj
    settings = settings_of(options)
    config = ctx.meta.get(CONFIG_FILE)
    if config == "<stdin>":
        raise ConfigError(["--config: `up` needs a file, because its processes read it again"])
    _check_own_zookeeper(options, settings)
    return ProcessPlan(
        folder=Path(options["data_path"]),
        zookeeper=f"{settings.hosts}{settings.root}" if names_zookeeper(options) else None,
        message_queue=options["message_queue"],
        config=Path(config) if config else None,
        drain=settings.drain,
        settings=settings,
        **{name: options[name] for name in _DATABASES},
        **given,
    )


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


def _check_own_zookeeper(options: dict[str, Any], settings: Settings) -> None:
    """Refuse to start a ZooKeeper if the settings require what it does not have.

    Raises:
        ConfigError: naming the setting.
    """
    if not names_zookeeper(options) and (settings.tls or settings.scheme == SASL):
        raise ConfigError(
            [
                "tls, scheme: the ZooKeeper that `up` starts has neither TLS nor SASL; leave them"
                " out, or name another ZooKeeper with --zookeeper"
            ]
        )


def _request_scale(where: ClusterTarget, schedulers: int) -> None:
    node = ScaleNode(where.settings)
    node.start()
    try:
        node.set(schedulers)
    finally:
        node.stop()


def _await_members(where: ClusterTarget, schedulers: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    with Directory(where.settings) as directory:
        while (running := len(directory.members())) != schedulers:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{running} schedulers run after {timeout:g} s, not {schedulers}:"
                    " is there an `up` that runs this cluster? See its logs"
                )
            time.sleep(POLL)
