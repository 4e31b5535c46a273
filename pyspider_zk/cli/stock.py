"""pyspider's own commands, adopted: the same options and functions, other defaults.

pyspider's click objects are copied, never changed: plain ``pyspider`` stays what it is.
"""

import copy
import functools
import logging
import multiprocessing
import threading
from collections.abc import Callable, Mapping
from typing import Any

import click
from pyspider import run

from pyspider_zk.cli.checks import section_of
from pyspider_zk.cli.failure import Failure
from pyspider_zk.cli.insecure import INSECURE_HELP, check_stock, insecure_option
from pyspider_zk.cli.json_lines import name_component
from pyspider_zk.components.wiring import (
    TOGETHER_OPTION,
    check_login,
    check_services,
    current_message_queue,
    current_settings,
)
from pyspider_zk.databases.connecting import wait_for_databases
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.listening import HIGHEST_PORT, LOOPBACK

# command -> the option that chooses what it runs, and our choice
CLUSTER_CLASSES = {
    "scheduler": ("scheduler_cls", "pyspider_zk.hooks.ClusterScheduler"),
    "processor": ("processor_cls", "pyspider_zk.hooks.ClusterProcessor"),
    "fetcher": ("fetcher_cls", "pyspider_zk.hooks.ClusterFetcher"),
    "result-worker": ("result_cls", "pyspider_zk.hooks.ClusterResultWorker"),
    "webui": ("webui_instance", "pyspider_zk.webui.app"),
}
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
        return super().invoke(callback, *args, **kwargs)


def command_name(command: click.Command) -> str:
    """Return the name of one of pyspider's commands as we write it."""
    return str(command.name).replace("_", "-")


def adopt(command: click.Command) -> click.Command:
    """Return our copy of one of pyspider's commands."""
    ours = copy.copy(command)
    name = ours.name = command_name(command)
    ours.help = _HELP.get(name, command.help)
    ours.params = list(map(_with_range, ours.params))
    if name in ALONE:
        return ours
    ours.context_class = ClusterContext
    if name == "all" and command.callback is not None:
        ours.callback = _checked(command.callback)
    if name in CLUSTER_CLASSES and command.callback is not None:
        ours.params = [_adopt_option(name, param) for param in ours.params]
        ours.callback = _visible(name, _closed(name, _connected(command.callback)))
    if name == "phantomjs" and command.callback is not None:
        ours.callback = _visible(name, _closed(name, command.callback))
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


def _with_range(param: click.Parameter) -> click.Parameter:
    """Return an option, one of a port with its range: beyond it, a port of the rest is taken."""
    if not isinstance(param, click.Option) or not str(param.name).endswith("port"):
        return param
    ours = copy.copy(param)
    ours.type = click.IntRange(0, HIGHEST_PORT)
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
        return _loaded(value) if isinstance(value, str) else value
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from error


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
        if any(is_of_cluster(path) for path in _classes(config)):
            check_services()
        return function(*args, **kwargs)

    return every


def _classes(config: Mapping[str, Any]) -> list[str]:
    """Return the import paths of what the components run.

    Raises:
        ConfigError: naming those that cannot be loaded.
    """
    paths: list[str] = []
    faults: list[str] = []
    for command, (option, ours) in CLUSTER_CLASSES.items():
        section = section_of(command)
        paths.append(config.get(section, {}).get(option, ours))
        try:
            _loaded(paths[-1])
        except ConfigError as error:
            faults.append(f'section "{section}", {option}: {error}')
    if faults:
        raise ConfigError(faults)
    return paths


def _connected(function: Function) -> Function:
    """Make a component wait for unavailable databases, and end if the queue refuses its login."""

    @functools.wraps(function)
    def component(*args: Any, **kwargs: Any) -> Any:
        wait_for_databases(click.get_current_context().obj or {})
        if current_message_queue():
            check_login(current_message_queue())
        return function(*args, **kwargs)

    return component


def _visible(name: str, function: Function) -> Function:
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
