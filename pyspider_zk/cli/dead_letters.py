"""The command ``dead-letters``: messages that could not be processed, to list, replay or drop."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import click
from rich.table import Table

from pyspider_zk.cli.output import console, json_option, moment
from pyspider_zk.cli.projects import with_options
from pyspider_zk.cli.target import (
    ITS_QUEUE,
    ClusterTarget,
    connected,
    find_target,
    message_queue_of,
    user,
    with_global_options,
)
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.components.wiring import names_zookeeper
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.queues.api import DeadLetter, SlotQueues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.dead_letters import letter_dict, readable
from pyspider_zk.terminal import cell, say

_ANY_SLOTS = 1  # dead letters do not depend on the number of slots
_PREVIEW = 300  # characters of a message in the table

_of_queues = with_global_options(message_queue=ITS_QUEUE)
_chosen = with_options(
    click.argument("tags", nargs=-1),
    click.option("--all", "every", is_flag=True, help="all dead letters"),
)


@click.group("dead-letters")
def dead_letters() -> None:
    """Show, replay or drop messages that could not be processed.

    Without --message-queue it uses the cluster that `pyspider-zk up` runs in this folder.
    """


@_of_queues
@dead_letters.command("list")
@json_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@click.pass_obj
def show(options: dict[str, Any], as_json: bool, limit: int) -> None:
    """Show the latest dead letters, newest first."""
    with _slot_queues(options, _owner(options)) as queues:
        letters, total = queues.dead_letters(limit), queues.dead()
    if as_json:
        click.echo(json.dumps({"total": total, "letters": [letter_dict(each) for each in letters]}))
    else:
        console().print(_table(letters, total))


@_of_queues
@dead_letters.command()
@_chosen
@click.pass_obj
def replay(options: dict[str, Any], tags: tuple[str, ...], every: bool) -> None:
    """Put dead letters back into the queues that they were found in."""
    _apply(options, tags, every, lambda queues, chosen: queues.replay(chosen), "put back")


@_of_queues
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
    owner = _owner(options)
    with _slot_queues(options, owner) as queues:
        chosen = list(tags) or [each.tag for each in reversed(queues.dead_letters(queues.dead()))]
        count = act(queues, chosen)
    text = f"{count} dead letter{'' if count == 1 else 's'} {done}"
    say(text)
    if owner and count:
        _record(owner, text)
    missing = len(set(tags)) - count
    if missing > 0:
        raise ClusterError(f"{missing} of these tags {'is' if missing == 1 else 'are'} not there")


def _owner(options: dict[str, Any]) -> ClusterTarget | None:
    """Return the cluster whose letters these are, None if only their queue is named."""
    if message_queue_of(options) and not names_zookeeper(options):
        return None
    return find_target(options)


def _record(owner: ClusterTarget, text: str) -> None:
    event = Event(EventKind.DEAD_LETTERS, text, time.time(), user())
    try:
        with connected(owner.settings) as connection:
            EventLog(connection, Tree(owner.settings.root)).append(event)
    except ClusterError as error:
        say(f"it is not in the event log: {error}", err=True)


@contextmanager
def _slot_queues(options: dict[str, Any], owner: ClusterTarget | None) -> Iterator[SlotQueues]:
    """Open the slot queues of the command's cluster.

    Raises:
        ConfigError: no message queue is configured, or a cluster cannot use it.
    """
    url = message_queue_of(options) or (owner.message_queue if owner else None)
    if not url:
        raise ConfigError(
            [
                f"message queue: none is given, and no cluster runs in {options['data_path']};"
                " name one with --message-queue redis://host:6379/0"
            ]
        )
    with closing(connect(url, 0, _ANY_SLOTS)) as queues:
        yield queues.slot_queues


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
