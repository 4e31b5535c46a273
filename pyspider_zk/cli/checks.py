"""Checks of a config.json: all its faults, by name.

A section is named after a command and holds its options. Beside options, pyspider passes what a
section holds to the command's function when ``all`` or ``one`` runs it, so the function's other
arguments count as known.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from pyspider_zk.config import SECTION, unknown


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
    options = options_of(group)
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


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by the names that config.json has for them."""
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
    options, known = options_of(command), _known(command)
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
