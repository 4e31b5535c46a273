"""Commands ``batches`` and ``batch``: operations that were requested, and their progress."""

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyspider_zk.cli.target import target, with_global_options
from pyspider_zk.cli.times import age
from pyspider_zk.client import BatchStatus, Client
from pyspider_zk.terminal import cell, escaped, say

WHERE = {
    "zookeeper_option": "the cluster's ZooKeeper",
    "data_path": "the data folder of `up`",
}
FAILURES_SHOWN = 20

_STYLES = {"failed": "red", "cancelled": "yellow", "running": "bold"}


@with_global_options(**WHERE)
@click.command()
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
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


@with_global_options(**WHERE)
@click.command("batch")
@click.argument("id")
@click.option("--follow", is_flag=True, help="wait until it has ended")
@click.option("--cancel", is_flag=True, help="stop it before its next projects")
@click.option("--retry", is_flag=True, help="start a new batch for the projects that failed")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
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
    if not (cancel or retry):
        exit_by(batch)


def _request(client: Client, batch: str, cancel: bool, retry: bool) -> BatchStatus:
    if cancel:
        return client.cancel(batch, user())
    return client.retry(batch, user()) if retry else client.batch(batch)


def user() -> str:
    """Return the name of the user, for the event log."""
    return os.environ.get("LOGNAME") or os.environ.get("USER") or ""


def client_of(options: dict[str, Any]) -> Client:
    """Return a client of the command's cluster, not connected yet."""
    return Client(target(options).settings)


def console(**more: Any) -> Console:
    """Return the console; output that is not a terminal is 160 columns wide."""
    return Console(width=None if sys.stdout.isatty() else 160, **more)


def show_batch(batch: BatchStatus, as_json: bool) -> None:
    """Print a batch, and the projects that failed."""
    if as_json:
        click.echo(json.dumps(asdict(batch)))
        return
    say(sentence(batch))
    for project, reason in list(batch.errors.items())[:FAILURES_SHOWN]:
        say(f"  {project}: {reason}", err=True)
    if batch.failed > FAILURES_SHOWN:
        say(f"  ... and {batch.failed - FAILURES_SHOWN} more", err=True)


def exit_by(batch: BatchStatus) -> None:
    """Exit with 1 if the batch has ended and not all of it was done."""
    if batch.ended and batch.done < batch.total:
        raise SystemExit(1)


def sentence(batch: BatchStatus) -> str:
    """Return a batch in one line."""
    rest = f", {batch.remaining} remain" if batch.remaining else ""
    failed = f", {batch.failed} failed" if batch.failed else ""
    return (
        f"{batch.operation} {batch.state}: {batch.done} of {counted(batch.total)}"
        f"{failed}{rest} (batch {batch.id})"
    )


def counted(number: int) -> str:
    """Return a number of projects in words."""
    return f"{number:,} project{'' if number == 1 else 's'}"


def follow_batch(
    client: Client, batch: BatchStatus, timeout: float | None = None, *, quiet: bool = False
) -> BatchStatus:
    """Wait until a batch has ended, with a progress bar on a terminal; return it.

    Raises:
        TimedOut: it had not ended in time; it goes on.
    """
    if quiet or not sys.stderr.isatty():
        return client.wait(batch.id, timeout)
    with _bar() as progress:
        task = progress.add_task(escaped(batch.operation), total=batch.total, failed="")
        for batch in client.follow(batch.id, timeout):  # noqa: B020 - the same one, later
            failed = f"[red]{batch.failed} failed" if batch.failed else ""
            progress.update(task, completed=batch.done + batch.failed, failed=failed)
    return batch


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[failed]}"),
        console=console(stderr=True),
    )


def _table(batches: list[BatchStatus]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("batch", "operation", "state", "projects", "done", "failed", "user", "age"):
        right = name in ("projects", "done", "failed", "age")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    now = time.time()
    for batch in batches:
        numbers = (batch.total, batch.done, batch.failed)
        asked = (batch.user, age(batch.created, now))
        cells = (batch.id, batch.operation, batch.state, *numbers, *asked)
        table.add_row(*map(cell, cells), style=_STYLES.get(batch.state))
    return table
