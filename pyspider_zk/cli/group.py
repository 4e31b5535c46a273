"""The command group ``pyspider-zk``: global options, config.json, help."""

import copy
import logging
import logging.config
import os
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from pyspider import run

from pyspider_zk import __version__
from pyspider_zk.cli.checks import (
    FINDINGS,
    Findings,
    database_link_faults,
    link_faults,
    read_config,
    section_of,
    take_out_services,
)
from pyspider_zk.cli.components import CLUSTER_CLASSES
from pyspider_zk.cli.logs import keep_lines_apart, write_json
from pyspider_zk.cli.output import Failure
from pyspider_zk.cli.stock import ALONE, ClusterContext, set_apart, with_type
from pyspider_zk.components.wiring import ZOOKEEPER_OPTION, current_settings
from pyspider_zk.config import JSON, SECTION, settings_from
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.databases.urls import faults as database_faults
from pyspider_zk.errors import ClusterError, ConfigError, brief
from pyspider_zk.queues.connect import connect
from pyspider_zk.terminal import say

URLS = f"{__name__}.urls"
_ARGUMENTS = f"{__name__}.arguments"

DOCTOR = "doctor"

NO_MESSAGE_QUEUE = (
    "message queue: none is given, and pyspider's built-in one cannot be shared by a cluster;"
    " name one with --message-queue redis://host:6379/0,"
    " or let `pyspider-zk up` start everything on this machine"
)


class ClusterGroup(click.Group):
    """pyspider's commands and the cluster's under one name.

    Args:
        own: the cluster's commands; the other ones are pyspider's.
    """

    context_class = ClusterContext

    def __init__(self, *args: Any, own: list[click.Command], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own = frozenset(str(command.name) for command in own)
        for command in own:
            self.add_command(command)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Begin a command, in an environment without the addresses of services."""
        for warning in take_out_services():
            say(f"Warning: {warning}", err=True)
        return super().make_context(*args, **kwargs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by its name with dashes or underscores."""
        return super().get_command(ctx, cmd_name.replace("_", "-"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and remember its arguments."""
        _, command, rest = super().resolve_command(ctx, args)
        ctx.meta[_ARGUMENTS] = rest
        return command.name if command else None, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a ClusterError becomes a message and an exit code."""
        try:
            return super().invoke(ctx)
        except ClusterError as error:
            raise Failure(error, debug=bool(ctx.params.get("debug"))) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the cluster's commands first."""
        names = self.list_commands(ctx)
        self._rows(formatter, "The cluster", [name for name in names if name in self.own])
        self._rows(
            formatter, "pyspider's components", [name for name in names if name not in self.own]
        )

    def _rows(self, formatter: click.HelpFormatter, title: str, names: list[str]) -> None:
        width = formatter.width - 6 - max(map(len, self.commands))
        rows = [(name, self.commands[name].get_short_help_str(width)) for name in names]
        with formatter.section(title):
            formatter.write_dl(rows)


def options() -> list[click.Parameter]:
    """Return pyspider's global options and ours."""
    zookeeper = click.Option(
        ["--zookeeper", ZOOKEEPER_OPTION],
        metavar="HOSTS[/ROOT]",
        help="ZooKeeper of the cluster and the znode it lives below,"
        " such as zk1:2181,zk2:2181/pyspider-zk",
    )
    return [_option(param) for param in run.cli.params if param.name != "version"] + [
        zookeeper,
        *_version(),
    ]


def _version() -> list[click.Parameter]:
    message = f"pyspider-zk {__version__} (pyspider {version('pyspider')})"
    carrier = click.version_option(message=message, version=__version__)(click.Command(None))
    return carrier.params


def _option(param: click.Parameter) -> click.Parameter:
    ours = copy.copy(with_type(param))
    if param.name == "config":
        ours.callback = read_config
    elif param.name in DATABASES and param.callback is not None:
        ours.callback = _remember(param.callback)
    return ours


def _remember(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the URL that pyspider's callback turns into a database."""

    def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        ctx.meta.setdefault(URLS, {})[param.name] = value
        return callback(ctx, param, value)

    return remember


def _group(ctx: click.Context) -> ClusterGroup:
    if not isinstance(ctx.command, ClusterGroup):
        raise TypeError("the options of pyspider-zk belong to its own group")
    return ctx.command


@click.pass_context
def prepare(ctx: click.Context, /, **params: Any) -> Any:
    """Check the options, then do what pyspider does before a command."""
    _report(ctx, params)
    command = ctx.invoked_subcommand
    if command in _group(ctx).own:
        level = logging.DEBUG if params["debug"] else logging.ERROR
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
        keep_lines_apart()
        ctx.obj = params | ctx.meta.get(URLS, {})
        return None
    if command in ALONE:
        set_apart(str(command), params["config"])
    _try_files(params["data_path"], params["logging_config"])
    prepared = run.cli.callback(**params)
    if current_settings().log_format == JSON:
        write_json(str(command or "all"))
    else:
        keep_lines_apart()
    return prepared


def _try_files(data: str, logs: str) -> None:
    """Make the folder of data, closed to others, and set logging up, which pyspider does again.

    Raises:
        ConfigError: one of them is not possible.
    """
    try:
        Path(data).mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = f"data_path: {data!r} cannot be made a folder: {error.strerror}"
        raise ConfigError([reason]) from error
    try:
        logging.config.fileConfig(logs)
    except Exception as error:  # of whatever the file names
        raise ConfigError([f"logging_config: {logs!r} cannot be used: {brief(error)}"]) from error


def _report(ctx: click.Context, params: Mapping[str, Any]) -> None:
    """Report everything that is wrong, at once.

    Raises:
        ConfigError: with every fault.
    """
    findings: Findings = ctx.meta.get(FINDINGS, Findings())
    for warning in findings.warnings:
        say(f"Warning: {warning}", err=True)
    if ctx.invoked_subcommand == DOCTOR:
        return  # it tells them among its findings, and examines the rest
    faults = [*findings.faults, *_settings_faults(params)]
    if _needs_queue(ctx, params["config"]):
        faults.extend(_queue_faults(params))
    if (ctx.invoked_subcommand or "all") in ("all", "up", *ALONE, *CLUSTER_CLASSES):
        given = ctx.meta.get(URLS, {})
        faults.extend(database_faults({kind: url for kind, url in given.items() if url}))
    if ctx.invoked_subcommand not in _group(ctx).own:
        faults.extend(_link_faults(params))
    if faults:
        raise ConfigError(faults)


def _link_faults(params: Mapping[str, Any]) -> Iterator[str]:
    if not (params["message_queue"] or params["amqp_url"]):
        yield from link_faults("RABBITMQ")
    if not params["phantomjs_proxy"]:
        yield from link_faults("PHANTOMJS")
    if not all(params[kind] for kind in DATABASES):
        yield from database_link_faults()


def _faults_of(attempt: Callable[[], object]) -> tuple[str, ...]:
    try:
        attempt()
    except ConfigError as error:
        return error.faults
    return ()


def _settings_faults(params: Mapping[str, Any]) -> tuple[str, ...]:
    section, zookeeper = params["config"].get(SECTION), params[ZOOKEEPER_OPTION]
    return _faults_of(lambda: settings_from(section, os.environ, zookeeper))


def _queue_faults(params: Mapping[str, Any]) -> tuple[str, ...]:
    url = params["message_queue"] or params["amqp_url"]
    if not url and (params["beanstalk"] or os.environ.get("RABBITMQ_NAME")):
        url = "beanstalk://" if params["beanstalk"] else "amqp://"  # as pyspider does
    return _faults_of(lambda: connect(url, 0, 1).close()) if url else (NO_MESSAGE_QUEUE,)


def _needs_queue(ctx: click.Context, config: Mapping[str, Any]) -> bool:
    """Return whether the command runs a class of the cluster."""
    command, arguments = ctx.invoked_subcommand or "all", ctx.meta.get(_ARGUMENTS, [])
    names = CLUSTER_CLASSES if command == "all" else CLUSTER_CLASSES.keys() & {command}
    return any(_runs_ours(name, config, arguments) for name in names)


def _runs_ours(command: str, config: Mapping[str, Any], arguments: list[str]) -> bool:
    option, ours = CLUSTER_CLASSES[command]
    flag = f"--{option.replace('_', '-')}"
    if "--help" in arguments or any(argument.startswith(flag) for argument in arguments):
        return False  # it may be any class; a cluster's class checks the queue itself
    section = config.get(section_of(command))
    chosen = section.get(option, ours) if isinstance(section, Mapping) else ours
    return str(chosen).startswith("pyspider_zk.")
