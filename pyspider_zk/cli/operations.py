"""Commands that start, stop, restart, delete or change any number of projects."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import click

from pyspider_zk.cli.batches import counted, exit_by, follow_batch, show_batch
from pyspider_zk.cli.output import json_option
from pyspider_zk.cli.projects import SELECTION, selection_of, with_options
from pyspider_zk.cli.target import client_of, of_cluster, user
from pyspider_zk.client import Client, Plan, SelectionOptions
from pyspider_zk.errors import ClusterError
from pyspider_zk.jobs.operations import TASK_STATES
from pyspider_zk.projects.rows import STATUSES
from pyspider_zk.terminal import say

_operation = with_options(
    *SELECTION,
    click.option("--dry-run", is_flag=True, help="only show what would be done"),
    click.option(
        "--wait/--no-wait", default=True, show_default=True, help="wait until it has ended"
    ),
    click.option("--timeout", type=click.FloatRange(0), help="seconds to wait at most"),
    click.option(
        "--id", help="an id of your own: repeating the command with it has no further effect"
    ),
    click.option("--priority", type=click.IntRange(0, 999), help="the highest runs first"),
    json_option,
)


def _plain(name: str, text: str) -> click.Command:
    """Return the command of an operation without arguments."""

    @of_cluster
    @click.command(name, help=text)
    @_operation
    @click.pass_obj
    def command(options: dict[str, Any], /, **how: Any) -> None:
        _request(options, name, {}, how)

    return command


@of_cluster
@click.command()
@click.option("--yes", is_flag=True, help="do not ask for confirmation")
@click.option("--in-24h", "later", is_flag=True, help="stop now, delete tomorrow, as pyspider does")
@_operation
@click.pass_obj
def delete(options: dict[str, Any], /, yes: bool, later: bool, **how: Any) -> None:
    """Delete projects with their tasks and results."""
    confirm = None if yes else _confirm_deletion
    _request(options, "delete", {"wait": later}, how, confirm)


@of_cluster
@click.command()
@click.argument("rate", type=click.FloatRange(0))
@click.argument("burst", type=click.FloatRange(0))
@_operation
@click.pass_obj
def rate(options: dict[str, Any], /, rate: float, burst: float, **how: Any) -> None:
    """Set tasks per second, and tasks at once."""
    _request(options, "rate", {"rate": rate, "burst": burst}, how)


@of_cluster
@click.command()
@click.argument("to_group", metavar="GROUP")
@_operation
@click.pass_obj
def group(options: dict[str, Any], /, to_group: str, **how: Any) -> None:
    """Put projects into a group; '' for none."""
    _request(options, "group", {"group": to_group}, how)


@of_cluster
@click.command("set-status")
@click.argument("to_status", metavar="STATUS", type=click.Choice(STATUSES, case_sensitive=False))
@_operation
@click.pass_obj
def set_status(options: dict[str, Any], /, to_status: str, **how: Any) -> None:
    """Set the status of projects, without calling on_start."""
    _request(options, "status", {"status": to_status}, how)


@of_cluster
@click.command()
@click.option("--task", "tasks", metavar="ID", multiple=True, help="this task; may be repeated")
@click.option(
    "--state",
    type=click.Choice(TASK_STATES, case_sensitive=False),
    help="tasks that ended so; without --task: FAILED",
)
@click.option("--callback", metavar="METHOD", help="tasks whose page this method gets")
@click.option("--url", metavar="TEXT", help="tasks whose URL contains this")
@click.option("--error", metavar="TEXT", help="tasks whose last error contains this")
@click.option("--status-code", type=click.IntRange(0, 999), help="tasks whose answer had this one")
@click.option("--kind", metavar="KIND", help="tasks that fail so, as `failures` shows it")
@_operation
@click.pass_obj
def refetch(options: dict[str, Any], /, **how: Any) -> None:
    """Fetch tasks again, with all their tries; by default all that failed."""
    names = ("tasks", "state", "callback", "error", "status_code", "kind", "url")
    given = {name: how.pop(name) for name in names}
    given["tasks"] = list(given["tasks"]) or None
    known = {name: value for name, value in given.items() if value is not None}
    _request(options, "refetch", known, how)  # older schedulers know fewer


def _request(
    options: dict[str, Any],
    operation: str,
    arguments: Mapping[str, Any],
    how: dict[str, Any],
    confirm: Callable[[Plan], None] | None = None,
) -> None:
    """Carry out a command: a dry run, or a batch."""
    chosen = selection_of(how)
    with client_of(options) as client:
        if how["dry_run"]:
            _show_plan(client.plan(operation, arguments, **chosen), how["as_json"])
            return
        agreed = ""
        if confirm is not None:
            plan = client.plan(operation, arguments, **chosen)
            confirm(plan)
            agreed = plan.digest
        _submit(client, operation, arguments, chosen, {**how, "plan": agreed})


def _submit(
    client: Client,
    operation: str,
    arguments: Mapping[str, Any],
    chosen: SelectionOptions,
    how: Mapping[str, Any],
) -> None:
    more = {"batch": how["id"], "priority": how["priority"], "plan": how["plan"]}
    given = {name: value for name, value in more.items() if value is not None}
    batch = client.submit(operation, arguments, user=user(), **chosen, **given)
    if how["wait"]:
        if not how["as_json"]:
            say(f"batch {batch.id}: {operation} {counted(batch.total)}", err=True)
        batch = follow_batch(client, batch, how["timeout"], quiet=how["as_json"])
    show_batch(batch, how["as_json"])
    exit_by(batch)


def _show_plan(plan: Plan, as_json: bool) -> None:
    """Print a plan; end with 1 if not all would be done."""
    if as_json:
        click.echo(json.dumps(asdict(plan)))
    else:
        say(f"{plan.operation} {_named(plan)}")
        for fault in plan.faults:
            say(f"  {fault}", err=True)
    if plan.faults:
        raise SystemExit(1)


def _confirm_deletion(plan: Plan) -> None:
    """Make the user type the name of a single project, or their number.

    Raises:
        ClusterError: the user typed something else.
    """
    if plan.count == 0:
        return  # it will be refused with the reason
    say(f"delete {_named(plan)}, with all tasks and results", err=True)
    what, expected = "their number", [str(plan.count), f"{plan.count:,}"]
    if plan.count == 1:
        what, expected = "its name", plan.names
    typed = click.prompt(f"Type {what} to continue", err=True, default="", show_default=False)
    if typed not in expected:
        raise ClusterError(
            f"nothing was deleted: {typed!r} is not {what}; --yes skips the question"
        )


def _named(plan: Plan) -> str:
    rest = plan.count - len(plan.names)
    more = f" and {rest:,} more" if rest else ""
    return f"{counted(plan.count)}: {', '.join(plan.names)}{more}"


OPERATIONS = [
    _plain("start", "Set projects to RUNNING and call on_start once."),
    _plain("stop", "Set projects to STOP."),
    _plain("restart", "Drop projects' tasks and start them again."),
    _plain("run", "Call on_start of running projects."),
    *(delete, rate, group, set_status, refetch),
]
