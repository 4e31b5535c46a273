"""Commands ``projects`` and ``route``: which projects exist, and who schedules them."""

import json
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from pyspider_zk.cli.batches import WHERE, client_of, console
from pyspider_zk.cli.selecting import filter_of, filters
from pyspider_zk.cli.target import with_global_options
from pyspider_zk.client import Project
from pyspider_zk.jobs.project_list import SORTS
from pyspider_zk.terminal import cell, say

_COLUMNS = ("name", "group", "status", "rate", "burst", "slot", "owner")
_NUMBERS = ("rate", "burst", "slot", "owner")


@with_global_options(**WHERE)
@click.command()
@filters
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
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
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
        found = client.projects(sort, offset, limit, **filter_of(chosen))
    if as_json:
        items = [asdict(project) for project in found.items]
        click.echo(json.dumps({"total": found.total, "projects": items}))
    else:
        console().print(_table(found.items, found.total) if found.items else "no projects")


@with_global_options(**WHERE)
@click.command()
@click.argument("project")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
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


def _table(found: list[Project], total: int) -> Table:
    title = f"{len(found):,} of {total:,} projects" if len(found) < total else None
    table = Table(title=title, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for project in found:
        table.add_row(*(cell(_shown(getattr(project, name))) for name in _COLUMNS))
    return table


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
