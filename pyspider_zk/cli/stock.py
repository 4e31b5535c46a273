"""pyspider's own commands, adopted: the same options and functions, other defaults.

pyspider's click objects are copied, never changed: plain ``pyspider`` stays what it is.
"""

import copy
import functools
import multiprocessing
import signal
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import click
from pyspider import run

from pyspider_zk.cli.checks import section_of
from pyspider_zk.cli.components import (
    CLUSTER_CLASSES,
    INSECURE_HELP,
    check_classes,
    in_cluster,
    insecure_option,
    is_of_cluster,
    load_chosen,
)
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import TOGETHER_OPTION, check_services
from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import HIGHEST_PORT, LOOPBACK
from pyspider_zk.webui.accounts import NO_SCHEDULER_RPC

LOOP_LIMIT = 2000
"""Messages and tasks of a large round; each then costs an eighth less than with pyspider's 1000."""

ALONE = ("one", "bench")  # they run on classes of their own, in a cluster of none

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
    if name in CLUSTER_CLASSES:
        ours.params = [_adopt_option(name, param) for param in ours.params]
    if name in (*CLUSTER_CLASSES, "phantomjs") and command.callback is not None:
        ours.callback = in_cluster(name, command.callback)
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
        return load_chosen(str(param.name), value) if isinstance(value, str) else value
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``all`` check once what would stop each of its components, and tell them of it."""

    @functools.wraps(function)
    def every(*args: Any, **kwargs: Any) -> Any:
        options = click.get_current_context().obj
        options[TOGETHER_OPTION] = True
        config = options["config"]
        check_classes(config)
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
