"""The command ``logs``: what all components have warned of lately."""

import json
import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Any

import click

from pyspider_zk.cli.output import json_option, moment
from pyspider_zk.cli.target import of_queues, owner_of, queues_of
from pyspider_zk.components.signals import on_signals
from pyspider_zk.queues.log_lines import KEPT, LEVELS, LogFilter, LogLine, read_log
from pyspider_zk.terminal import say

EVERY = 2.0
"""Seconds between two looks of who follows: one for what is rare reads all lines."""


@of_queues
@click.command()
@click.option(
    "--level", default=LEVELS[0], show_default=True, type=click.Choice(LEVELS), help="the least"
)
@click.option("--component", default="", metavar="KIND", help="of this kind, such as processor")
@click.option("--project", default="", metavar="NAME", help="about this project")
@click.option("--text", default="", help="whose message or traceback contains this")
@click.option("--follow", is_flag=True, help="keep showing new lines, until Ctrl-C")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@json_option
@click.pass_obj
def logs(options: dict[str, Any], /, follow: bool, limit: int, as_json: bool, **given: str) -> None:
    """Show what all components have warned of lately, oldest first.

    Without --message-queue it uses the cluster that `pyspider-zk up` runs in this folder. With
    --follow and --json each line is a document.
    """
    wanted, ends = LogFilter(**given), threading.Event()
    with queues_of(options, owner_of(options)) as queues, on_signals({signal.SIGINT: ends.set}):
        found, _ = read_log(queues.log, wanted, "", limit)
        if as_json and not follow:
            click.echo(json.dumps([asdict(line) for _, line in reversed(found)]))
            return
        if not (found or as_json):
            say("no line matches")
        _show(found, as_json)
        while follow and not ends.wait(EVERY):
            last = found[0][0] if found else ""
            latest, _ = read_log(queues.log, wanted, "", KEPT)
            new = list(takewhile(lambda entry: entry[0] != last, latest))  # noqa: B023
            _show(new, as_json)
            found = new or found


def _show(entries: Sequence[tuple[str, LogLine]], as_json: bool) -> None:
    for _, line in reversed(entries):
        if as_json:
            click.echo(json.dumps(asdict(line)))
        else:
            say(_told(line))


def _told(line: LogLine) -> str:
    """Return a line as logs are written, its traceback indented."""
    where = f"{moment(line.at)} {line.level} {line.component} {line.host}:{line.pid}"
    return f"{where} {line.logger}: {line.message}\n{line.traceback}".strip().replace(
        "\n", "\n    "
    )
