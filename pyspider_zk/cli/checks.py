"""Checks of what a command is given: all faults of a config.json and of the environment, by name.

A section of config.json is named after a command and holds its options. Beside options, pyspider
passes what a section holds to the command's function when ``all`` or ``one`` runs it, so the
function's other arguments count as known.

Docker and Kubernetes set variables for other containers. pyspider takes one such as MYSQL_NAME for
a link, whatever set it, and reads those of its own ports, which a service of that name has as well.
"""

import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
from pyspider import run
from pyspider.database import servers

from pyspider_zk.cli.output import Failure
from pyspider_zk.config import SECTION, is_service_link, unknown
from pyspider_zk.errors import ConfigError

FINDINGS = f"{__name__}.findings"
CONFIG_FILE = f"{__name__}.config_file"
"""Under these names ``ctx.meta`` has the `Findings` of config.json, and its path."""

_PORTS = ("WEBUI_PORT", "SCHEDULER_XMLRPC_PORT", "FETCHER_XMLRPC_PORT")  # pyspider's own

# container -> the variables of its place that pyspider reads, and the options that stand for them
_LINKS = {
    "MYSQL": (
        ("MYSQL_PORT_3306_TCP_ADDR", "MYSQL_PORT_3306_TCP_PORT"),
        "--taskdb, --projectdb and --resultdb",
    ),
    "RABBITMQ": (
        ("RABBITMQ_PORT_5672_TCP_ADDR", "RABBITMQ_PORT_5672_TCP_PORT"),
        "--message-queue",
    ),
    "PHANTOMJS": (("PHANTOMJS_PORT_25555_TCP",), "--phantomjs-proxy"),
    "SCHEDULER": (("SCHEDULER_PORT_23333_TCP",), "--scheduler-rpc"),
}


@dataclass
class Findings:
    """What is wrong with a config.json.

    Attributes:
        faults: sentences; any of them stops the command.
        warnings: sentences about what pyspider ignores.
        bad: the top-level keys whose values are faulty.
    """

    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    bad: set[str] = field(default_factory=set)


def section_of(command: str) -> str:
    """Return the name of the section that belongs to a command."""
    return command.replace("-", "_")


def read_config(ctx: click.Context, param: click.Parameter, value: Any) -> dict[str, Any]:
    """Read config.json as pyspider does, and check it."""
    if value is None:
        return {}
    config = _parsed(ctx, param, value)
    if not isinstance(config, dict):
        raise Failure(ConfigError([f"{value.name}: must hold an object"]))
    findings = inspect_config(config, value.name, ctx)
    ctx.meta[FINDINGS], ctx.meta[CONFIG_FILE] = findings, value.name
    # Sections go by the commands' names; a faulty value is reported with all the others.
    good = {key: value for key, value in config.items() if key not in findings.bad}
    ctx.default_map = {key.replace("_", "-"): value for key, value in good.items()} | good
    return config


def inspect_config(config: Mapping[str, Any], file: str, ctx: click.Context) -> Findings:
    """Check everything except the section "zookeeper", which the settings check.

    Args:
        config: what the file holds.
        file: its name.
        ctx: the context of the group whose commands the sections belong to.
    """
    group = ctx.command
    if not isinstance(group, click.Group):
        raise TypeError(f"{group.name} has no commands")
    findings = Findings()
    sections = {section_of(name): command for name, command in group.commands.items()}
    options = _options_of(group)
    for key, value in config.items():
        if key in sections:
            findings.faults.extend(_section(key, value, sections[key], ctx))
        elif key in options:
            fault = _value_fault(key, options[key], value, ctx)
            if fault:
                findings.faults.append(f"{file}, {fault}")
                findings.bad.add(key)
        elif key != SECTION:
            findings.warnings.append(unknown(key, file, [*sections, *options, SECTION]))
    return findings


def take_out_services() -> Iterator[str]:
    """Remove the variables that name no port of ours but a service; yield a warning for each."""
    for name in _PORTS:
        place = os.environ.get(name, "")
        if is_service_link(name, place):
            del os.environ[name]
            yield (
                f"{name}={place} is ignored: Kubernetes or Docker set it for a service of that"
                " name; the pod's enableServiceLinks: false keeps it away"
            )


def link_faults(*containers: str) -> Iterator[str]:
    """Yield what is wrong with the links to these containers, if there are any."""
    for container in containers:
        name = f"{container}_NAME"
        needed, options = _LINKS[container]
        missing = [variable for variable in needed if not os.environ.get(variable)]
        if os.environ.get(name) and missing:
            yield (
                f"environment, {name}: stands for a linked container, and {missing[0]} is missing:"
                f" unset it, or give {options}"
            )


def database_link_faults() -> Iterator[str]:
    """Yield what is wrong with the link to the databases that no option names."""
    if os.environ.get("MONGODB_NAME") and not os.environ.get("MYSQL_NAME"):
        yield f"environment, MONGODB_NAME: {servers.unsupported('mongodb')}; or unset it"
    else:
        yield from link_faults("MYSQL")


def check_scheduler_link() -> None:
    """Check the link to a scheduler, of who names none and looks for none in ZooKeeper.

    Raises:
        ConfigError: half of it is missing.
    """
    if faults := list(link_faults("SCHEDULER")):
        raise ConfigError(faults)


def _parsed(ctx: click.Context, param: click.Parameter, file: Any) -> Any:
    try:
        with file:  # click closes it only if all options turn out well
            return run.read_config(ctx, param, file)
    except (ValueError, RecursionError) as error:
        raise Failure(ConfigError([f"{file.name}{_told(error)}"])) from error


def _told(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return f", line {error.lineno}, column {error.colno}: {error.msg}"
        case UnicodeDecodeError():
            return ": is no text in UTF-8"
        case RecursionError():
            deep = "is nested too deeply; options stand in it, and in the sections of the commands"
            return f": {deep}"
    most = sys.get_int_max_str_digits()
    return f": holds a whole number of more than {most} digits; none may be that large"


def _options_of(command: click.Command) -> dict[str, click.Option]:
    return {
        str(option.name): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value
    }


def _section(
    name: str, section: object, command: click.Command, ctx: click.Context
) -> Iterator[str]:
    place = f'section "{name}"'
    if not isinstance(section, Mapping):
        yield f"{place}: must be an object, not {section!r}"
        return
    options, known = _options_of(command), _known(command)
    for key, value in section.items():
        if key not in known:
            yield unknown(key, place, known)
        elif key in options:
            fault = _value_fault(key, options[key], value, ctx)
            if fault:
                yield f"{place}, {fault}"


def _known(command: click.Command) -> list[str]:
    """Return the names of the options and of the other arguments of a command's function."""
    names = {str(param.name) for param in command.params if param.expose_value}
    if command.callback is not None:
        arguments = inspect.signature(command.callback).parameters.values()
        names |= {each.name for each in arguments if each.kind is not each.VAR_KEYWORD}
    return sorted(names - {"ctx"})


def _value_fault(name: str, option: click.Option, value: object, ctx: click.Context) -> str | None:
    if option.type is click.STRING and isinstance(value, bool | list | dict):
        return f"{name}: must be text"  # click would take what Python writes for it
    try:
        option.type_cast_value(ctx, value)
    except click.UsageError as error:
        return f"{name}: {error.message}"
    except (TypeError, ValueError, OverflowError, AttributeError):
        # click's types take texts from a command line; JSON has lists, objects and infinity, too
        return f"{name}: {value!r:.80} is not a valid {option.type.name}"
    return None
