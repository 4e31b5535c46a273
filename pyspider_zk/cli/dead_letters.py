"""The command ``dead-letters``: messages that could not be processed, to list, replay or drop."""

import json
import time
from collections.abc import Callable
from typing import Any

import click
from rich.table import Table

from pyspider_zk.cli.output import console, json_option, moment, remarked_if_unlogged
from pyspider_zk.cli.projects import with_options
from pyspider_zk.cli.target import (
    ClusterTarget,
    of_queues,
    owner_of,
    queues_of,
    user,
)
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.api import DeadLetter, SlotQueues
from pyspider_zk.queues.dead_letters import letter_dict, readable
from pyspider_zk.terminal import cell, say
from pyspider_zk.zookeeper.connection import connected

_PREVIEW = 300  # characters of a message in the table

_chosen = with_options(
    click.argument("tags", nargs=-1),
    click.option("--all", "every", is_flag=True, help="all dead letters"),
)


@click.group("dead-letters")
def dead_letters() -> None:
    """Show, replay or drop messages that could not be processed.

    Without --message-queue it uses the cluster that `pyspider-zk up` runs in this folder.
    """


@of_queues
@dead_letters.command("list")
@json_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@click.pass_obj
def show(options: dict[str, Any], as_json: bool, limit: int) -> None:
    """Show the latest dead letters, newest first."""
    with queues_of(options, owner_of(options)) as found:
        queues = found.slot_queues
        letters, total = queues.dead_letters(limit), queues.dead()
    if as_json:
        click.echo(json.dumps({"total": total, "letters": [letter_dict(each) for each in letters]}))
    else:
        console().print(_table(letters, total))


@of_queues
@dead_letters.command()
@_chosen
@click.pass_obj
def replay(options: dict[str, Any], tags: tuple[str, ...], every: bool) -> None:
    """Put dead letters back into the queues that they were found in."""
    _apply(options, tags, every, lambda queues, chosen: queues.replay(chosen), "put back")


@of_queues
@dead_letters.command()
@_chosen
@click.pass_obj
def drop(options: dict[str, Any], tags: tuple[str, ...], every: bool) -> None:
    """Delete dead letters permanently."""
    _apply(options, tags, every, lambda queues, chosen: queues.discard(chosen), "dropped")


def _apply(
    options: dict[str, Any],
    tags: tuple[str, ...],
    every: bool,
    act: Callable[[SlotQueues, list[str]], int],
    done: str,
) -> None:
    """Apply a function to the named letters, or to all of them, oldest first.

    Raises:
        ClusterError: some of those named are not there; the others are done.
    """
    if bool(tags) == every:
        raise click.UsageError("name tags from `dead-letters list`, or use --all")
    owner = owner_of(options)
    with queues_of(options, owner) as found:
        queues = found.slot_queues
        chosen = list(tags) or queues.dead_letter_tags()
        count = act(queues, chosen)
    text = f"{count} dead letter{'' if count == 1 else 's'} {done}"
    say(text)
    if owner and count:
        _record(owner, text)
    missing = len(set(tags)) - count
    if missing > 0:
        raise ClusterError(f"{missing} of these tags {'is' if missing == 1 else 'are'} not there")


def _record(owner: ClusterTarget, text: str) -> None:
    event = Event(EventKind.DEAD_LETTERS, text, time.time(), user())
    with remarked_if_unlogged(), connected(owner.settings) as connection:
        EventLog(connection, Tree(owner.settings.root)).append(event)


def _table(letters: list[DeadLetter], total: int) -> Table | str:
    if not letters:
        return "no dead letters"
    title = f"{len(letters)} of {total} dead letters" if len(letters) < total else None
    table = Table("tag", "time", "queue", "reason", "message", title=title, box=None)
    table.columns[0].no_wrap = True
    for letter in letters:
        message = f"{readable(letter.body)!s:.{_PREVIEW}}"
        cells = (letter.tag, moment(letter.time), letter.queue, letter.reason, message)
        table.add_row(*map(cell, cells))
    return table
