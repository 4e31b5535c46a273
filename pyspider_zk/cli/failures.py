"""The command ``failures``: what fails in all projects, by kinds of errors, or task by task."""

import json
from typing import Any, cast

import click
from rich.table import Table

from pyspider_zk.cli.output import console, json_option, moment, table
from pyspider_zk.cli.target import client_of, of_cluster
from pyspider_zk.client import FailedTask, FailureKind, FailureOptions
from pyspider_zk.terminal import cell


@of_cluster
@click.command()
@click.option("--project", metavar="NAME", help="of this project")
@click.option("--kind", help="of exactly this kind")
@click.option("--callback", metavar="METHOD", help="whose page this method gets")
@click.option("--status-code", type=click.IntRange(0, 999), help="of the answer; 0: there was none")
@click.option("--url", metavar="TEXT", help="whose URL contains this")
@click.option("--error", metavar="TEXT", help="whose error contains this")
@click.option("--tasks", "by_task", is_flag=True, help="the tasks, the latest first")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_obj
def failures(
    options: dict[str, Any], /, by_task: bool, limit: int, as_json: bool, **given: Any
) -> None:
    """Show what fails: kinds of errors, and how many tasks of how many projects.

    To have such tasks fetched again, see `refetch --kind`.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    which = cast(FailureOptions, chosen)
    found: list[FailedTask] | list[FailureKind]
    with client_of(options) as client:
        if by_task:
            found = client.failed_tasks(limit=limit, **which)
        else:
            found = client.failures(limit=limit, **which)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
    else:
        console().print(_table(found) if found else "nothing fails")


def _table(found: list[FailedTask] | list[FailureKind]) -> Table:
    """Return a table with a row for each, the longest text last."""
    names: tuple[str, ...]
    if isinstance(found[0], FailureKind):
        names = ("tasks", "given_up", "projects", "status_code", "last_at", "callback", "kind")
    else:
        names = ("project", "taskid", "status_code", "last_at", "callback", "error")
    rows = table(*names, right=("tasks", "given_up", "projects", "status_code"))
    for each in found:
        shown = {**each._asdict(), "last_at": moment(each.last_at)}
        rows.add_row(*(cell(str(shown[name])) for name in names))
    return rows
