"""Selection of projects, and the commands that show them: projects, route."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, cast

import click
from rich.table import Table

from pyspider_zk.cli.output import console, json_option, table
from pyspider_zk.cli.target import client_of, of_cluster
from pyspider_zk.client import Project, SelectionOptions
from pyspider_zk.jobs.project_list import SORTS
from pyspider_zk.projects.rows import STATUSES
from pyspider_zk.terminal import cell, say

_COLUMNS = ("name", "group", "status", "rate", "burst", "slot", "owner")
_NUMBERS = ("rate", "burst", "slot", "owner")
_FILTERS = (
    click.option("--pattern", metavar="GLOB", help="shell pattern for names, such as 'news_*'"),
    click.option("--group", metavar="WORD", help="projects of this group"),
    click.option("--status", type=click.Choice(STATUSES, case_sensitive=False)),
    click.option("--owner", type=click.IntRange(0), help="projects that this member schedules"),
)
SELECTION = (
    click.argument("names", nargs=-1, metavar="[NAMES]..."),
    *_FILTERS,
    click.option("--all", "every", is_flag=True, help="all projects"),
)
"""What selects projects; of all filters that are given each must hold. See `selection_of`."""

Command = Callable[..., None]


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Decorate a command with options, in this order."""

    def extend(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return extend


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


@of_cluster
@click.command()
@with_options(*_FILTERS)
@click.option(
    "--sort",
    default="name",
    show_default=True,
    type=click.Choice([*SORTS, *(f"-{key}" for key in SORTS)]),
    metavar="[-]COLUMN",
    help=f"one of {', '.join(SORTS)}",
)
@click.option("--limit", type=click.IntRange(1), help="how many at most")
@click.option("--offset", default=0, type=click.IntRange(0), help="how many to skip")
@json_option
@click.pass_obj
def projects(
    options: dict[str, Any],
    /,
    sort: str,
    limit: int | None,
    offset: int,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show projects and who schedules them."""
    with client_of(options) as client:
        found = client.projects(sort, offset, limit, **_filter_of(chosen))
    if as_json:
        items = [asdict(project) for project in found.items]
        click.echo(json.dumps({"total": found.total, "projects": items}))
    else:
        console().print(_table(found.items, found.total) if found.items else "no projects")


@of_cluster
@click.command()
@click.argument("project")
@json_option
@click.pass_obj
def route(options: dict[str, Any], project: str, as_json: bool) -> None:
    """Show who schedules a project."""
    with client_of(options) as client:
        found = client.route(project)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    owner = "nobody just now" if found.owner is None else f"member {found.owner} at {found.address}"
    after = "" if found.next is None else f", then member {found.next}"
    say(f"{project}: slot {found.slot}, {found.phase} by {owner}{after}")


def _filter_of(options: dict[str, Any]) -> SelectionOptions:
    """Return the selection by options alone; without any, all projects."""
    return cast(
        SelectionOptions, {name: value for name, value in options.items() if value is not None}
    )


def _table(found: list[Project], total: int) -> Table:
    title = f"{len(found):,} of {total:,} projects" if len(found) < total else None
    rows = table(*_COLUMNS, right=_NUMBERS, title=title)
    for project in found:
        rows.add_row(*(cell(_shown(getattr(project, name))) for name in _COLUMNS))
    return rows


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
