"""The commands ``tasks``, which searches the tasks of all projects, and ``task``."""

import json
from itertools import islice
from typing import Any, cast, get_args

import click

from pyspider_zk.cli.output import console, json_option, moment, table
from pyspider_zk.cli.target import client_of, of_cluster
from pyspider_zk.client import TaskOptions
from pyspider_zk.tasks.filters import State
from pyspider_zk.terminal import cell, say


@of_cluster
@click.command()
@click.argument("url", required=False, metavar="[TEXT]")
@click.option("--project", metavar="NAME", help="of this project")
@click.option("--state", type=click.Choice(get_args(State), case_sensitive=False))
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="at most")
@json_option
@click.pass_obj
def tasks(options: dict[str, Any], /, limit: int, as_json: bool, **given: Any) -> None:
    """Search tasks whose URL contains TEXT, or whose id it is.

    A task whose whole URL it is comes first. Otherwise rows are read until enough are found: some
    hundred thousand in a second.
    """
    chosen = {name: value for name, value in given.items() if value}
    with client_of(options) as client:
        found = list(islice(client.tasks(**cast(TaskOptions, chosen)), limit))
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
        return
    rows = table("project", "taskid", "state", "crawled_at", "url", right=())
    for each in found:
        crawled = "" if each.crawled_at is None else moment(each.crawled_at)
        shown = (each.project, each.taskid, each.state, crawled, each.url)
        rows.add_row(*map(cell, shown))
    console().print(rows if found else "no task matches")


@of_cluster
@click.command("task")
@click.argument("project")
@click.argument("taskid")
@json_option
@click.pass_obj
def one_task(options: dict[str, Any], /, project: str, taskid: str, as_json: bool) -> None:
    """Show a task: its last try with what its script logged, and its next one.

    With --json also what is stored of it.
    """
    with client_of(options) as client:
        found = client.task(project, taskid)
    if as_json:
        click.echo(json.dumps(found))
        return
    logs = found.pop("logs")
    del found["documents"]
    for name in ("crawled_at", "due_at"):
        found[name] = moment(found[name]) if found[name] else None
    for name, value in found.items():
        if value not in (None, ""):
            say(f"{name:<12}  {value}".replace("\n", " "))
    if logs:
        say(f"\n{logs}")
