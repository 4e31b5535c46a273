"""What is around the function of a component: its class, where it may listen, its end.

pyspider's functions get here what components of the cluster see to by themselves.
"""

import errno
import functools
import logging
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import click
from pyspider import run

from pyspider_zk.cli.checks import check_scheduler_link, section_of
from pyspider_zk.cli.logs import name_component
from pyspider_zk.cli.output import Failure
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.log_sharing import shared_log
from pyspider_zk.components.watchdog import TaskMark, Watchdog
from pyspider_zk.components.wiring import (
    ALONE_IN_PROCESS,
    INSECURE_OPTION,
    TASK_MARK,
    check_login,
    current_data_path,
    current_message_queue,
    current_settings,
    is_one_of_several,
    names_zookeeper,
)
from pyspider_zk.databases.connecting import wait_for_databases
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.listening import HIGHEST_PORT, LOOPBACK, Listener, check_listening
from pyspider_zk.rendering.chromium import Chromium, chromium_program
from pyspider_zk.rendering.request import LISTENER as RENDERER
from pyspider_zk.rpc import admission
from pyspider_zk.webui import accounts
from pyspider_zk.workers import fetcher

Function = Callable[..., Any]

# command -> the option that chooses what it runs, and our choice
CLUSTER_CLASSES = {
    "scheduler": ("scheduler_cls", "pyspider_zk.hooks.ClusterScheduler"),
    "processor": ("processor_cls", "pyspider_zk.hooks.ClusterProcessor"),
    "fetcher": ("fetcher_cls", "pyspider_zk.hooks.ClusterFetcher"),
    "result-worker": ("result_cls", "pyspider_zk.hooks.ClusterResultWorker"),
    "webui": ("webui_instance", "pyspider_zk.webui.app"),
}
SCHEDULER_BASE = CLUSTER_CLASSES["scheduler"][1]

_PACKAGE = "pyspider_zk"
_LOGGERS = (f"{_PACKAGE}.", "pyspider.", "result", "database.")  # ours, and pyspider's own
_THROUGH_ZOOKEEPER = object()
"""In place of a scheduler's address: pyspider shall make no connection of its own."""

_NO_LISTENING = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
RENDERER_PORT = 25555  # PhantomJS' usual one

logger = logging.getLogger(__name__)

_XMLRPC = "Let XML-RPC listen on any address without a secret: everybody who reaches it may"
_BROWSER = Listener(
    name="phantomjs",
    option="phantomjs --host",
    opens="make it open any page that this machine reaches, and run JavaScript there",
    guard="nothing, because it has no login",
)
INSECURE_HELP = {
    "scheduler": f"{_XMLRPC} {admission.LISTENER.opens}.",
    "fetcher": f"{_XMLRPC} {fetcher.LISTENER.opens}.",
    "webui": "Listen for others without a login: they can run Python here.",
    "phantomjs": f"Listen for others: they can {_BROWSER.opens}.",
    "renderer": f"Listen for others without a secret: they can {RENDERER.opens}.",
    "all": "Let all that is started here listen on any address without a login or secret:"
    " web UI, XML-RPC and phantomjs.",
}
"""By command. For ``all`` it applies to each of its parts."""

_STOCK = {
    "fetcher": replace(
        fetcher.LISTENER, guard="fetcher-cls to a class of the cluster, which can have a secret"
    ),
    "webui": replace(accounts.LISTENER, guard="--need-auth with --username and --password"),
    "phantomjs": _BROWSER,
}


def insecure_option(command: str) -> click.Option:
    """Return the option for a command; it applies to the whole process."""

    def note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.obj[INSECURE_OPTION] = True

    return click.Option(
        ["--insecure", INSECURE_OPTION],
        is_flag=True,
        expose_value=False,
        callback=note,
        help=INSECURE_HELP[command],
    )


def _check_stock(command: str, given: Mapping[str, Any], insecure: bool) -> None:
    """Check where one of pyspider's own classes may listen; they do not check it themselves.

    Args:
        given: the arguments of the command's function.

    Raises:
        ConfigError: others could reach it without authentication.
    """
    host = given.get("xmlrpc_host" if "xmlrpc" in given else "host")
    if command not in _STOCK or not given.get("xmlrpc", True) or given.get("get_object"):
        return
    guarded = bool(given.get("need_auth") and given.get("username") and given.get("password"))
    check_listening(_STOCK[command], str(host), guarded=guarded, insecure=insecure)


def is_of_cluster(part: object) -> bool:
    """Return whether something is a class of ours, one derived from it, or made by it.

    Args:
        part: it, or the import path that leads to it.

    Raises:
        ConfigError: the path leads nowhere.
    """
    if isinstance(part, str) and part.startswith(f"{_PACKAGE}."):
        return True
    found = _loaded(part) if isinstance(part, str) else part
    bases = found.__mro__ if isinstance(found, type) else type(found).__mro__
    return any(base.__module__.startswith(f"{_PACKAGE}.") for base in bases)


def load_chosen(option: str, path: object) -> object:
    """Load what an option chooses.

    Raises:
        ConfigError: the path leads nowhere, or to a scheduler that would not be a member.
    """
    loaded = _loaded(path)
    if option == "scheduler_cls" and not is_of_cluster(loaded):
        raise ConfigError(
            [
                f"{path!r} is not derived from {SCHEDULER_BASE}, so it would own no slots and read"
                " none of their queues: derive it from that class"
            ]
        )
    return loaded


def check_classes(config: Mapping[str, Any]) -> None:
    """Check what the components run.

    Raises:
        ConfigError: naming the classes that cannot be loaded or used.
    """
    faults: list[str] = []
    for command, (option, ours) in CLUSTER_CLASSES.items():
        section = section_of(command)
        try:
            load_chosen(option, config.get(section, {}).get(option, ours))
        except ConfigError as error:
            faults.append(f'section "{section}", {option}: {error}')
    if faults:
        raise ConfigError(faults)


def in_cluster(name: str, function: Function) -> Function:
    """Return the function of one of pyspider's commands as it runs in a cluster.

    Classes of the cluster check themselves where they listen, and show themselves to others.
    """
    option, _ = CLUSTER_CLASSES.get(name, ("", ""))
    work = _served(function) if name == "webui" else function

    @visible(name)
    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        is_ours = bool(option) and is_of_cluster(kwargs[option])
        if is_ours and name == "processor":
            _fork_for_watchdog()
        if not is_ours:
            _check_stock(name, kwargs, current_settings().insecure)
        with ExitStack() as held:
            if option:
                if not kwargs.get("get_object"):  # as a web UI makes a fetcher of its own
                    held.enter_context(_sharing(name))
                    if not is_ours:
                        _show(name, held)
                _await_services()
            return work(*args, **kwargs)

    return component


@contextmanager
def visible(name: str) -> Iterator[None]:
    """Report once why a subprocess or thread of ``all`` failed; also a decorator."""
    _enable_loggers()
    if multiprocessing.parent_process() is not None:
        name_component(name)
    try:
        yield
    except ClusterError as error:
        if not _is_aside():
            raise
        failure = Failure(error, name)
        failure.show()
        raise SystemExit(failure.exit_code) from error


@click.command(params=[insecure_option("renderer")])
@click.option("--host", default=LOOPBACK, show_default=True)
@click.option(
    "--port", default=RENDERER_PORT, show_default=True, type=click.IntRange(0, HIGHEST_PORT)
)
@click.option(
    "--pages",
    default=8,
    show_default=True,
    type=click.IntRange(1),
    help="pages that are open at the same time; others wait",
)
@click.option(
    "--memory",
    default=2048,
    show_default=True,
    type=click.IntRange(256),
    help="MB of all of Chromium; beyond them the largest page fails",
)
@click.option("--chromium", default="", help="its program; default: the one of the system")
@visible("renderer")
def renderer(host: str, port: int, pages: int, memory: int, chromium: str) -> None:
    """Run a renderer, for tasks with fetch_type='js'; fetchers find it by --phantomjs-proxy."""
    settings = current_settings()
    entry = admission.admission_of(settings, RENDERER, content_type="")
    entry.listen(host)
    program = chromium_program(os.environ, chromium)
    from pyspider_zk.rendering.renderer import Renderer, run_renderer

    made = Renderer(Chromium(program, memory * 2**20), pages, settings, entry)
    with _sharing("renderer"):
        run_renderer(made, settings, host, port, current_data_path())


def _loaded(path: object) -> object:
    if not isinstance(path, str) or "." not in path:
        raise ConfigError([f"{path!r} must be module.object"])
    try:
        loaded: object = run.load_cls(None, None, path)
    except (ImportError, AttributeError) as error:
        raise ConfigError([f"cannot load {path!r}: {error}"]) from error
    return loaded


def _served(function: Function) -> Function:
    """Let a web UI find its schedulers, and tell why it cannot listen."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        if is_of_cluster(kwargs["webui_instance"]):
            kwargs["scheduler_rpc"] = kwargs["scheduler_rpc"] or _THROUGH_ZOOKEEPER
        elif kwargs["scheduler_rpc"] is None:
            check_scheduler_link()
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno not in _NO_LISTENING and not isinstance(error, socket.gaierror):
                raise
            where = f"{kwargs['host']}:{kwargs['port']}"
            remedy = "choose another --port, 0 for any, or --host"
            raise ClusterError(f"cannot listen at {where} ({error.strerror}): {remedy}") from error

    return component


def _fork_for_watchdog() -> None:
    """Give a processor a watchdog, which goes on in this process; the processor in another.

    Only the main thread may fork, and only of a process that runs nothing but this command.
    """
    options = click.get_current_context().obj
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and options.get(ALONE_IN_PROCESS):
        options[TASK_MARK] = mark = TaskMark()
        Watchdog(mark).guard()


def _sharing(name: str) -> AbstractContextManager[None]:
    """Return what shares the log of this process; of several threads only the main one does."""
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()
    runs_all = is_one_of_several() and multiprocessing.parent_process() is None
    return shared_log(current_message_queue(), "all" if runs_all else name)


def _show(name: str, held: ExitStack) -> None:
    """Register a component in the cluster, if there is one; without ZooKeeper it works, too."""
    if not names_zookeeper(click.get_current_context().obj):
        return
    try:
        held.enter_context(presence(current_settings(), ComponentKind(name)))
    except ClusterError as error:
        logger.warning("this %s is not shown in the cluster: %s", name, error)


def _await_services() -> None:
    """Wait for unavailable databases, and end if the queue refuses our login."""
    wait_for_databases(click.get_current_context().obj or {})
    if current_message_queue():
        check_login(current_message_queue())


def _enable_loggers() -> None:
    """Enable the loggers that pyspider's logging set-up disabled because they existed already."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith(_LOGGERS) and isinstance(logger, logging.Logger):
            logger.disabled = False


def _is_aside() -> bool:
    """Return whether nobody above us on the stack will report an error."""
    in_thread = threading.current_thread() is not threading.main_thread()
    return in_thread or multiprocessing.parent_process() is not None
