"""Commands that show what was asked for and what happened: batches, batch, events."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, cast

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspider_zk.cli.following import keep_looking, until_interrupted
from pyspider_zk.cli.output import age, console, json_option, moment, table
from pyspider_zk.cli.target import client_of, of_cluster, user
from pyspider_zk.client import POLL, BatchStatus, Client, EventOptions, Logged
from pyspider_zk.cluster.event_filter import EventGroup
from pyspider_zk.errors import Unavailable
from pyspider_zk.terminal import cell, escaped, say

FAILURES_SHOWN = 20


class Moment(click.DateTime):
    """Time by this machine's clock, unless it names its zone; read as seconds since the epoch."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it, also as it is shown."""
        try:
            return super().convert(value, param, ctx).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value} is too far away", param, ctx)


_TIME = Moment(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S%z"])

_STYLES = {"failed": "red", "cancelled": "yellow", "running": "bold"}


@of_cluster
@click.command()
@json_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@click.option("--offset", default=0, type=click.IntRange(0), help="how many to skip")
@click.pass_obj
def batches(options: dict[str, Any], as_json: bool, limit: int, offset: int) -> None:
    """Show the operations that were requested, newest first."""
    with client_of(options) as client:
        found = client.batches(offset, limit)
    if as_json:
        click.echo(json.dumps([asdict(batch) for batch in found]))
    else:
        console().print(_table(found) if found else "no batches")


@of_cluster
@click.command("batch")
@click.argument("id")
@click.option("--follow", is_flag=True, help="wait until it has ended")
@click.option("--cancel", is_flag=True, help="stop it before its next projects")
@click.option("--retry", is_flag=True, help="start a new batch for the projects that failed")
@json_option
@click.pass_obj
def one_batch(
    options: dict[str, Any],
    id: str,  # noqa: A002 - what the user reads
    follow: bool,
    cancel: bool,
    retry: bool,
    as_json: bool,
) -> None:
    """Show, follow, cancel or retry one batch."""
    if cancel and retry:
        raise click.UsageError("--cancel and --retry exclude each other")
    with client_of(options) as client:
        batch = _request(client, id, cancel, retry)
        if follow:
            batch = follow_batch(client, batch, quiet=as_json)
    show_batch(batch, as_json)
    if not cancel and (follow or not retry):
        exit_by(batch)


@of_cluster
@click.command()
@click.argument("q", required=False, metavar="[TEXT]")
@click.option(
    "--group",
    type=click.Choice([each.value for each in EventGroup]),
    help="what people asked for, saved and tried scripts, or what happened",
)
@click.option("--kind", help="such as batch")
@click.option("--who", metavar="TEXT", help="whose name contains this")
@click.option("--since", type=_TIME, help="this time or later, by this machine's clock")
@click.option("--until", type=_TIME, help="before this time")
@click.option("--follow", is_flag=True, help="keep showing new events, until Ctrl-C")
@click.option("--after", type=int, help="only those after this number")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="print one JSON document per event")
@click.pass_obj
def events(
    options: dict[str, Any],
    /,
    follow: bool,
    after: int | None,
    limit: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what happened, oldest first.

    With TEXT, which the sentence or its details contain, or with other conditions, the last 90
    days are searched; all that is given must hold.
    """
    show = _show_json if as_json else _show
    if chosen := {name: value for name, value in given.items() if value is not None}:
        if follow or after is not None:
            raise click.UsageError("--follow and --after take no conditions")
        _search(options, chosen, limit, show)
        return
    with until_interrupted() as ends, client_of(options) as client:

        def look() -> bool:
            nonlocal after
            found = list(client.events(after, limit))
            for logged in found:
                show(logged)
                after = logged.sequence
            return bool(found)

        look()
        if follow:
            keep_looking(look, ends, POLL)


def _search(
    options: dict[str, Any], which: dict[str, Any], limit: int, show: Callable[[Logged], None]
) -> None:
    """Print the latest events that are meant, and why others may be missing."""
    with client_of(options) as client:
        found = client.find_events(limit=limit, **cast(EventOptions, which))
    for logged in reversed(found.events):
        show(Logged(*logged))
    if not found.events:
        say("no event matches", err=True)
    if found.missing:
        say(found.missing, err=True)


def show_batch(batch: BatchStatus, as_json: bool) -> None:
    """Print a batch, and the projects that failed."""
    if as_json:
        click.echo(json.dumps(asdict(batch)))
        return
    say(_sentence(batch))
    for project, reason in list(batch.errors.items())[:FAILURES_SHOWN]:
        say(f"  {project}: {reason}", err=True)
    if batch.failed > FAILURES_SHOWN:
        say(f"  ... and {batch.failed - FAILURES_SHOWN} more", err=True)


def exit_by(batch: BatchStatus) -> None:
    """Exit with 1 if the batch has ended and not all of it was done."""
    if batch.ended and batch.done < batch.total:
        raise SystemExit(1)


def counted(number: int) -> str:
    """Return a number of projects in words."""
    return f"{number:,} project{'' if number == 1 else 's'}"


def follow_batch(
    client: Client, batch: BatchStatus, timeout: float | None = None, *, quiet: bool = False
) -> BatchStatus:
    """Wait until a batch has ended, with a progress bar on a terminal; return it.

    Raises:
        TimedOut: it had not ended in time; it goes on.
        Unavailable: so it may; the batch is named.
    """
    try:
        return _followed(client, batch, timeout, quiet=quiet)
    except Unavailable as error:
        raise type(error)(f"{error}; batch {batch.id} was accepted") from error


def _followed(
    client: Client, batch: BatchStatus, timeout: float | None, *, quiet: bool
) -> BatchStatus:
    if quiet or not sys.stderr.isatty():
        return client.wait(batch.id, timeout)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    with Progress(*columns, console=console(stderr=True)) as progress:
        task = progress.add_task(escaped(batch.operation), total=batch.total, failed="")
        for batch in client.follow(batch.id, timeout):  # noqa: B020 - the same one, later
            failed = f"[red]{batch.failed} failed" if batch.failed else ""
            progress.update(task, completed=batch.done + batch.failed, failed=failed)
    return batch


def _request(client: Client, batch: str, cancel: bool, retry: bool) -> BatchStatus:
    if cancel:
        return client.cancel(batch, user())
    return client.retry(batch, user()) if retry else client.batch(batch)


def _sentence(batch: BatchStatus) -> str:
    rest = f", {batch.remaining} remain" if batch.remaining else ""
    failed = f", {batch.failed} failed" if batch.failed else ""
    return (
        f"{batch.operation} {batch.state}: {batch.done} of {counted(batch.total)}"
        f"{failed}{rest} (batch {batch.id})"
    )


def _table(batches: list[BatchStatus]) -> Table:
    numbers = ("projects", "done", "failed", "age")
    rows = table("batch", "operation", "state", *numbers[:3], "user", "age", right=numbers)
    now = time.time()
    for batch in batches:
        counts = (batch.total, batch.done, batch.failed)
        asked = (batch.user, age(batch.created, now))
        cells = (batch.id, batch.operation, batch.state, *counts, *asked)
        rows.add_row(*map(cell, cells), style=_STYLES.get(batch.state))
    return rows


def _show_json(logged: Logged) -> None:
    click.echo(json.dumps({"sequence": logged.sequence, **asdict(logged.event)}))


def _show(logged: Logged) -> None:
    event = logged.event
    who = f" ({event.who})" if event.who and event.who not in event.text else ""
    say(f"{logged.sequence:>6}  {moment(event.at)}  {event.kind:<7}  {event.text}{who}")
