"""Options that select the projects of a command."""

from collections.abc import Callable
from typing import Any, cast

import click

from pyspider_zk.client import SelectionOptions
from pyspider_zk.projects.rows import STATUSES

_OPTIONS = [
    click.option("--pattern", metavar="GLOB", help="shell pattern for names, such as 'news_*'"),
    click.option("--group", metavar="WORD", help="projects of this group"),
    click.option("--status", type=click.Choice(STATUSES, case_sensitive=False)),
    click.option("--owner", type=click.IntRange(0), help="projects that this member schedules"),
]

Command = Callable[..., None]


def filters(command: Command) -> Command:
    """Add the options; all that are given must hold."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selects_projects(command: Command) -> Command:
    """Add names, the options, and --all."""
    every = click.option("--all", "every", is_flag=True, help="all projects")
    names = click.argument("names", nargs=-1, metavar="[NAMES]...")
    return names(filters(every(command)))


def selection_of(options: dict[str, Any]) -> SelectionOptions:
    """Remove the parameters that select projects, and return the selection.

    Raises:
        UsageError: nothing is selected, or --all together with something else.
    """
    every = options.pop("every", False)
    given = {name: options.pop(name) for name in ("names", "pattern", "group", "status", "owner")}
    chosen = {name: value for name, value in given.items() if value not in ((), None)}
    if every == bool(chosen):
        raise click.UsageError(
            "name projects, or select them with --pattern, --group, --status, --owner or --all"
        )
    return cast(SelectionOptions, {**chosen, "all": every})


def filter_of(options: dict[str, Any]) -> SelectionOptions:
    """Return the selection by options alone; without any, all projects."""
    return cast(
        SelectionOptions, {name: value for name, value in options.items() if value is not None}
    )
