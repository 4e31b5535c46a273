"""The commands, from click's own description of them."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
import pyspider

from pyspider_zk.cli.main import cli

_PYSPIDER = str(Path(pyspider.__file__).parent)
"""A default names this folder, which is another one on each machine."""


def lines() -> Iterator[str]:
    """Yield a section in Markdown for each command, the cluster's before pyspider's."""
    context = click.Context(cli, info_name="pyspider-zk")
    yield "## Options of all commands\n"
    yield "They stand before the command's name.\n"
    yield from _options(context)
    names = cli.list_commands(context)
    yield "## The cluster\n"
    for name in names:
        if name in cli.own:
            yield from _section(cli.commands[name], context)
    yield "## pyspider's components\n"
    for name in names:
        if name not in cli.own:
            yield from _section(cli.commands[name], context)


def _section(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, parent, info_name=command.name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"### {context.command_path.removeprefix('pyspider-zk ')}\n"
    yield f"{cleandoc(command.help or '')}\n"
    yield f"```text\n{usage}\n```\n"
    yield from _options(context)
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _section(each, context)


def _options(context: click.Context) -> Iterator[str]:
    records = (each.get_help_record(context) for each in context.command.get_params(context))
    found = [record for record in records if record and record[0] != "--help"]
    if found:
        yield "| option | meaning |"
        yield "|---|---|"
        yield from (f"| `{_cell(option)}` | {_cell(meaning)} |" for option, meaning in found)
        yield ""


def _cell(text: str) -> str:
    """Return a text as a table has it."""
    return " ".join(text.replace(_PYSPIDER, ".../pyspider").split()).replace("|", "\\|")
