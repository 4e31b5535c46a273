"""The command ``logs``: what all components have warned of lately."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from pyspider_zk.cli.following import keep_looking, until_interrupted
from pyspider_zk.cli.output import json_option, moment
from pyspider_zk.cli.target import of_queues, owner_of, queues_of
from pyspider_zk.queues.log_lines import LEVELS, LOOK, LogFilter, LogLine, read_log
from pyspider_zk.terminal import say

EVERY = 2.0
"""Seconds between two looks of who follows."""


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
    wanted = LogFilter(**given)
    with until_interrupted() as ends, queues_of(options, owner_of(options)) as queues:
        found, _ = read_log(queues.log, wanted, "", limit)
        lines = [line for _, line in reversed(found)]
        if as_json and not follow:
            click.echo(json.dumps(list(map(asdict, lines))))
            return
        if not (found or as_json):
            say("no line matches")
        _show(lines, as_json)
        last = found[0][0] if found else ""

        def look() -> bool:
            nonlocal last
            new = queues.log.behind(last, LOOK)
            _show([line for _, line in new if line and wanted.holds(line)], as_json)
            last = new[-1][0] if new else last
            return bool(new)

        if follow:
            keep_looking(look, ends, EVERY)


def _show(lines: Sequence[LogLine], as_json: bool) -> None:
    for line in lines:
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
