"""The command ``events``: who did what."""

import json
import signal
import threading
from dataclasses import asdict
from typing import Any

import click

from pyspider_zk.cli.batches import WHERE, client_of
from pyspider_zk.cli.target import with_global_options
from pyspider_zk.cli.times import moment
from pyspider_zk.client import POLL, Logged
from pyspider_zk.components.signals import on_signals
from pyspider_zk.terminal import say


@with_global_options(**WHERE)
@click.command()
@click.option("--follow", is_flag=True, help="keep showing new events, until Ctrl-C")
@click.option("--after", type=int, help="only those after this number")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="print one JSON document per event")
@click.pass_obj
def events(
    options: dict[str, Any], follow: bool, after: int | None, limit: int, as_json: bool
) -> None:
    """Show what happened, oldest first."""
    ends = threading.Event()
    # kazoo mistakes an interruption in the middle of a request for a lost session.
    with client_of(options) as client, on_signals({signal.SIGINT: ends.set}):
        while True:
            for logged in client.events(after, limit):
                _print(logged, as_json)
                after = logged.sequence
            if not follow or ends.wait(POLL):
                return


def _print(logged: Logged, as_json: bool) -> None:
    if as_json:
        click.echo(_as_json(logged))
    else:
        say(_line(logged))


def _as_json(logged: Logged) -> str:
    return json.dumps({"sequence": logged.sequence, **asdict(logged.event)})


def _line(logged: Logged) -> str:
    event = logged.event
    who = f" ({event.who})" if event.who and event.who not in event.text else ""
    return f"{logged.sequence:>6}  {moment(event.at)}  {event.kind:<7}  {event.text}{who}"
