"""pyspider's own commands, adopted: the same options and functions, other defaults.

pyspider's click objects are copied, never changed: plain ``pyspider`` stays what it is.
"""

import copy
import errno
import functools
import logging
import multiprocessing
import signal
import socket
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import click
from pyspider import run

from pyspider_zk.cli.checks import section_of
from pyspider_zk.cli.failure import Failure
from pyspider_zk.cli.insecure import INSECURE_HELP, check_stock, insecure_option
from pyspider_zk.cli.json_lines import name_component
from pyspider_zk.cli.links import check_scheduler_link
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.task_mark import TaskMark
from pyspider_zk.components.watchdog import Watchdog
from pyspider_zk.components.wiring import (
    ALONE_IN_PROCESS,
    TASK_MARK,
    TOGETHER_OPTION,
    check_login,
    check_services,
    current_message_queue,
    current_settings,
    names_zookeeper,
)
from pyspider_zk.databases.connecting import wait_for_databases
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.listening import HIGHEST_PORT, LOOPBACK
from pyspider_zk.webui.accounts import NO_SCHEDULER_RPC

# command -> the option that chooses what it runs, and our choice
CLUSTER_CLASSES = {
    "scheduler": ("scheduler_cls", "pyspider_zk.hooks.ClusterScheduler"),
    "processor": ("processor_cls", "pyspider_zk.hooks.ClusterProcessor"),
    "fetcher": ("fetcher_cls", "pyspider_zk.hooks.ClusterFetcher"),
    "result-worker": ("result_cls", "pyspider_zk.hooks.ClusterResultWorker"),
    "webui": ("webui_instance", "pyspider_zk.webui.app"),
}
SCHEDULER_BASE = CLUSTER_CLASSES["scheduler"][1]
LOOP_LIMIT = 2000
"""Messages and tasks of a large round; each then costs an eighth less than with pyspider's 1000."""

ALONE = ("one", "bench")  # they run on classes of their own, in a cluster of none

_PACKAGE = "pyspider_zk"
_LOGGERS = (f"{_PACKAGE}.", "pyspider.", "result", "database.")  # ours, and pyspider's own
_HELP = {
    "scheduler": "Run a scheduler; any number of them share the projects.",
    "all": "Run one of each component in subprocesses or threads.",
    "processor": "Run a processor.",
    "fetcher": "Run a fetcher.",
    "result-worker": "Run a result worker.",
    "webui": "Run the web UI.",
    "send-message": "Send a message to a project.",
    "phantomjs": "Run the phantomjs fetcher, if phantomjs is installed.",
    "one": "Run everything in one process, to debug scripts.",
    "bench": "Measure pyspider itself on this machine.",
}

Function = Callable[..., Any]

THROUGH_ZOOKEEPER = object()
"""In place of a scheduler's address: pyspider shall make no connection of its own."""

_NO_LISTENING = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)

logger = logging.getLogger(__name__)


def rpc_url(value: str) -> str:
    """Take the URL of an XML-RPC server.

    Raises:
        click.BadParameter: it is none; it is not repeated, for it may hold a password.
    """
    try:
        parts = urlsplit(value)
        _ = parts.port  # which may be none
        is_one = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        is_one = False
    if not is_one:
        raise click.BadParameter("must be http://HOST:PORT/")
    return value


_RPC_URL = click.types.FuncParamType(rpc_url)
_ANY_PORT = click.IntRange(0, HIGHEST_PORT)
_TYPES = {
    "port": _ANY_PORT,
    "xmlrpc_port": _ANY_PORT,
    "scheduler_rpc": _RPC_URL,
    "fetcher_rpc": _RPC_URL,
    "threads": click.IntRange(1),
    "poolsize": click.IntRange(1),
    "timeout": click.FloatRange(0, min_open=True),
    "logging_config": click.Path(exists=True, dir_okay=False),
}
"""Of pyspider's options whose own type lets values pass that cannot work."""


class ClusterContext(click.Context):
    """A context in which our commands stand in for pyspider's of the same name.

    pyspider's functions invoke each other's commands as objects (``ctx.invoke(scheduler)``), and
    those carry pyspider's defaults.
    """

    def invoke(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Invoke a function or a command."""
        if isinstance(callback, click.Command):
            root = self.find_root().command
            commands = root.commands if isinstance(root, click.Group) else {}
            callback = commands.get(command_name(callback), callback)
            kwargs = _as_given_by_option(self, callback, kwargs)
        return super().invoke(callback, *args, **kwargs)


def _as_given_by_option(
    ctx: click.Context, command: click.Command, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what ``all`` takes from config.json as the command's own options would return it."""
    params = {param.name: param for param in command.params}
    return {
        name: params[name].type_cast_value(ctx, value)
        if name in params and isinstance(value, bool | int | float | str)
        else value
        for name, value in given.items()
    }


def command_name(command: click.Command) -> str:
    """Return the name of one of pyspider's commands as we write it."""
    return str(command.name).replace("_", "-")


def adopt(command: click.Command) -> click.Command:
    """Return our copy of one of pyspider's commands."""
    ours = copy.copy(command)
    name = ours.name = command_name(command)
    ours.help = _HELP.get(name, command.help)
    ours.params = list(map(with_type, ours.params))
    if name in ALONE:
        return ours
    ours.context_class = ClusterContext
    if name == "all" and command.callback is not None:
        ours.callback = _checked(command.callback)
    if name in CLUSTER_CLASSES and command.callback is not None:
        ours.params = [_adopt_option(name, param) for param in ours.params]
        work = _served(command.callback) if name == "webui" else command.callback
        work = _closed(name, _present(name, _connected(work)))
        ours.callback = visible(name, _guarded(work) if name == "processor" else work)
    if name == "phantomjs" and command.callback is not None:
        ours.callback = visible(name, _closed(name, command.callback))
    if name in INSECURE_HELP:
        ours.params = [*ours.params, insecure_option(name)]
    return ours


def adopted() -> list[click.Command]:
    """Return our copies of all of pyspider's commands."""
    return [adopt(command) for command in run.cli.commands.values()]


def set_apart(command: str, config: Mapping[str, dict[str, Any]]) -> None:
    """Remove from the sections what would break ``one`` or ``bench``, or open them to others.

    ``one`` cannot run cluster classes; ``bench`` fails on any configured class. What they
    run authenticates nobody, so it listens on loopback, wherever the cluster's does.
    """
    for component in ("scheduler", "fetcher"):
        config.get(component, {}).pop("xmlrpc_host", None)
    config.get("webui", {})["host"] = LOOPBACK
    for component, (option, _) in CLUSTER_CLASSES.items():
        section = config.get(section_of(component), {})
        if option not in section:
            continue
        chooses = command == "bench" and option != "webui_instance"
        if chooses or is_of_cluster(section[option]):
            del section[option]


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


def with_type(param: click.Parameter) -> click.Parameter:
    """Return an option that refuses what cannot work."""
    if not isinstance(param, click.Option) or param.name not in _TYPES:
        return param
    ours = copy.copy(param)
    ours.type = _TYPES[param.name]
    return ours


def _adopt_option(command: str, param: click.Parameter) -> click.Parameter:
    option, ours = CLUSTER_CLASSES[command]
    defaults = {option: ours, "loop_limit": LOOP_LIMIT}
    if param.name not in defaults:
        return param
    adopted_option = copy.copy(param)
    adopted_option.default = defaults[param.name]
    if param.name == option:
        adopted_option.callback = _load
    if isinstance(adopted_option, click.Option):
        adopted_option.show_default = True
    return adopted_option


def _load(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Load a class as pyspider does; a wrong path is the user's fault, not a crash."""
    try:
        return _chosen(str(param.name), value) if isinstance(value, str) else value
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _chosen(option: str, path: object) -> object:
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


def _loaded(path: object) -> object:
    if not isinstance(path, str) or "." not in path:
        raise ConfigError([f"{path!r} must be module.object"])
    try:
        loaded: object = run.load_cls(None, None, path)
    except (ImportError, AttributeError) as error:
        raise ConfigError([f"cannot load {path!r}: {error}"]) from error
    return loaded


def _closed(name: str, function: Function) -> Function:
    """Keep pyspider's own classes from listening for others; ours check that themselves."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        option, _ = CLUSTER_CLASSES.get(name, ("", ""))
        if not option or not is_of_cluster(kwargs[option]):
            check_stock(name, kwargs, current_settings().insecure)
        return function(*args, **kwargs)

    return component


def _checked(function: Function) -> Function:
    """Make ``all`` check once what would stop each of its components, and tell them of it."""

    @functools.wraps(function)
    def every(*args: Any, **kwargs: Any) -> Any:
        options = click.get_current_context().obj
        options[TOGETHER_OPTION] = True
        config = options["config"]
        _check_classes(config)
        _keep_from_guessing(config)
        check_services()
        with on_signals({signal.SIGCHLD: _reap}):
            return function(*args, **kwargs)

    return every


def _keep_from_guessing(config: MutableMapping[str, Any]) -> None:
    """Let the cluster's web UI look for schedulers itself; ``all`` would name it one.

    Raises:
        ConfigError: config.json names it one.
    """
    webui = config.setdefault("webui", {})
    if not is_of_cluster(webui.get(*CLUSTER_CLASSES["webui"])):
        return
    if webui.get("scheduler_rpc") is not None:
        raise ConfigError([f'section "webui", {NO_SCHEDULER_RPC}'])
    webui["scheduler_rpc"] = None


def _reap() -> None:
    """Let go of subprocesses that ended; they would stay zombies until all of them are to end."""
    multiprocessing.active_children()


def _check_classes(config: Mapping[str, Any]) -> None:
    """Check what the components run.

    Raises:
        ConfigError: naming the classes that cannot be loaded or used.
    """
    faults: list[str] = []
    for command, (option, ours) in CLUSTER_CLASSES.items():
        section = section_of(command)
        try:
            _chosen(option, config.get(section, {}).get(option, ours))
        except ConfigError as error:
            faults.append(f'section "{section}", {option}: {error}')
    if faults:
        raise ConfigError(faults)


def _served(function: Function) -> Function:
    """Let a web UI find its schedulers, and tell why it cannot listen."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        if is_of_cluster(kwargs["webui_instance"]):
            kwargs["scheduler_rpc"] = kwargs["scheduler_rpc"] or THROUGH_ZOOKEEPER
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


def _present(name: str, function: Function) -> Function:
    """Register components of the user's own, or pyspider's, in the cluster; ours do so themselves.

    That is information only: without ZooKeeper they work, too.
    """

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        option, _ = CLUSTER_CLASSES[name]
        has_cluster = names_zookeeper(click.get_current_context().obj)
        if not has_cluster or is_of_cluster(kwargs[option]) or kwargs.get("get_object"):
            return function(*args, **kwargs)
        with ExitStack() as held:
            try:
                held.enter_context(presence(current_settings(), ComponentKind(name)))
            except ClusterError as error:
                logger.warning("this %s is not shown in the cluster: %s", name, error)
            return function(*args, **kwargs)

    return component


def _guarded(function: Function) -> Function:
    """Give a processor of ours a watchdog, which goes on in this process; it in another.

    Only the main thread may fork, and only of a process that runs nothing but this command.
    """

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        options = click.get_current_context().obj
        in_main = threading.current_thread() is threading.main_thread()
        option, _ = CLUSTER_CLASSES["processor"]
        if in_main and options.get(ALONE_IN_PROCESS) and is_of_cluster(kwargs[option]):
            options[TASK_MARK] = mark = TaskMark()
            Watchdog(mark).guard()
        return function(*args, **kwargs)

    return component


def _connected(function: Function) -> Function:
    """Make a component wait for unavailable databases, and end if the queue refuses its login."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        wait_for_databases(click.get_current_context().obj or {})
        if current_message_queue():
            check_login(current_message_queue())
        return function(*args, **kwargs)

    return component


def visible(name: str, function: Function) -> Function:
    """Report once why a subprocess or thread of ``all`` failed."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        _enable_loggers()
        if multiprocessing.parent_process() is not None:
            name_component(name)
        try:
            return function(*args, **kwargs)
        except ClusterError as error:
            if not _is_aside():
                raise
            failure = Failure(error, name)
            failure.show()
            raise SystemExit(failure.exit_code) from error

    return component


def _enable_loggers() -> None:
    """Enable the loggers that pyspider's logging set-up disabled because they existed already."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith(_LOGGERS) and isinstance(logger, logging.Logger):
            logger.disabled = False


def _is_aside() -> bool:
    """Return whether nobody above us on the stack will report an error."""
    in_thread = threading.current_thread() is not threading.main_thread()
    return in_thread or multiprocessing.parent_process() is not None
