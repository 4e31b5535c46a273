"""The command ``logs``: what all components have warned of lately."""

import json
from dataclasses import asdict
from typing import Any

import click

from pyspider_zk.cli.output import json_option, moment
from pyspider_zk.cli.target import of_queues, owner_of, queues_of
from pyspider_zk.queues.log_lines import LEVELS, LogFilter, LogLine, read_log
from pyspider_zk.terminal import say


@of_queues
@click.command()
@click.option(
    "--level", default=LEVELS[0], show_default=True, type=click.Choice(LEVELS), help="the least"
)
@click.option("--component", default="", metavar="KIND", help="of this kind, such as processor")
@click.option("--project", default="", metavar="NAME", help="about this project")
@click.option("--text", default="", help="whose message or traceback contains this")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@json_option
@click.pass_obj
def logs(options: dict[str, Any], /, limit: int, as_json: bool, **given: str) -> None:
    """Show what all components have warned of lately, oldest first.

    Without --message-queue it uses the cluster that `pyspider-zk up` runs in this folder.
    """
    with queues_of(options, owner_of(options)) as queues:
        found, _ = read_log(queues.log, LogFilter(**given), "", limit)
    lines = [line for _, line in reversed(found)]
    if as_json:
        click.echo(json.dumps(list(map(asdict, lines))))
    elif lines:
        say("\n".join(map(_told, lines)))
    else:
        say("no line matches")


def _told(line: LogLine) -> str:
    """Return a line as logs are written, its traceback indented."""
    where = f"{moment(line.at)} {line.level} {line.component} {line.host}:{line.pid}"
    return f"{where} {line.logger}: {line.message}\n{line.traceback}".strip().replace(
        "\n", "\n    "
    )
