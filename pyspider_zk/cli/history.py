"""The command ``history``: what was counted in the last day, week or two."""

import json
import time
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from pyspider_zk.cli.output import console, json_option, moment, table
from pyspider_zk.cli.target import of_queues, owner_of, queues_of
from pyspider_zk.queues.history import ENDS, PENDING, SPANS, TIMES, read_history

_NUMBERS = (*ENDS, *TIMES, PENDING)


@of_queues
@click.command()
@click.argument("project", default="")
@click.option("--span", type=click.Choice(list(SPANS)), default="day", show_default=True)
@json_option
@click.pass_obj
def history(options: dict[str, Any], /, project: str, span: str, as_json: bool) -> None:
    """Show what was counted in the last day, week or two, of a PROJECT or the whole cluster.

    Without --message-queue it uses the cluster that `pyspider-zk up` runs in this folder.
    """
    with queues_of(options, owner_of(options)) as queues:
        counted = read_history(queues.history, project, span, time.time())
    if as_json:
        click.echo(json.dumps(counted))
    else:
        console().print(_table(counted))


def _table(counted: Mapping[str, Any]) -> Table | str:
    """Return a table of the steps in which a try ended, the oldest first."""
    rows = table("from", *_NUMBERS, right=_NUMBERS)
    for place, tries in enumerate(zip(*(counted[each] for each in ENDS), strict=True)):
        if any(tries):
            began = moment(counted["at"] + place * counted["step"])
            rows.add_row(began, *(_shown(counted[each][place]) for each in _NUMBERS))
    return rows if rows.row_count else "no try ended"


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}" if isinstance(number, float) else str(number)
