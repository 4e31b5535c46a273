"""Commands about who owns which slots: maintenance, drain, evict, pin, rebalance."""

import threading
import time
from collections import Counter
from typing import Any

import click

from pyspider_zk.cli.batches import WHERE, client_of, user
from pyspider_zk.cli.ordering import opened_cluster
from pyspider_zk.cli.target import with_global_options
from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.rebalancing import Rebalancing, SlotMove
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import BadMessage, BadRequest
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.rpc.client import request_drain

_NUMBER = click.IntRange(0)


@with_global_options(**WHERE)
@click.command()
@click.argument("mode", type=click.Choice(["on", "off"]))
@click.option("--hold", is_flag=True, help="not even the slots of dead members move")
@click.pass_obj
def maintenance(options: dict[str, Any], mode: str, hold: bool) -> None:
    """Let the assignment stand still while you work at the machines.

    Nothing is evened out, and members that join get nothing. Slots of members that drain, leave or
    die still move, unless you say --hold.
    """
    if hold and mode == "off":
        raise click.UsageError("--hold goes with `maintenance on`")
    chosen = Maintenance.HOLD if hold else Maintenance(mode)
    with opened_cluster(options) as opened:
        click.echo(f"maintenance is {opened.orders.maintain(chosen).maintenance}")


@with_global_options(**WHERE)
@click.command()
@click.argument("number", type=_NUMBER)
@click.pass_obj
def drain(options: dict[str, Any], number: int) -> None:
    """Move a scheduler's slots to others at once; then its process ends."""
    with opened_cluster(options) as opened:
        cluster = opened.directory.read()
        member, record = cluster.numbered(number)
        request_drain(number, record, opened.own, user())
        text = f"member {member} was asked to drain"
        opened.events.append(Event(EventKind.DRAIN, text, time.time(), user()))
    if cluster.settings.maintenance is Maintenance.HOLD:
        held = "maintenance is on hold: its slots stay, and wait for its number to be back"
        click.echo(held, err=True)
    elif all(one.draining for other, one in cluster.members.items() if other != member):
        click.echo("there is no other scheduler: its slots wait for one to join", err=True)
    click.echo(f"member {number} drains")


@with_global_options(**WHERE)
@click.command()
@click.argument("number", type=_NUMBER)
@click.option("--undo", is_flag=True, help="let it get slots again")
@click.pass_obj
def evict(options: dict[str, Any], number: int, undo: bool) -> None:
    """Move a scheduler's slots to others, and give it none; its process runs on.

    It needs no answer from the scheduler, and holds for whoever has that number, until --undo.
    """
    with opened_cluster(options) as opened:
        act = opened.orders.admit if undo else opened.orders.evict
        settings = act(number)
    click.echo(f"evicted: {', '.join(map(str, settings.evicted)) or 'nobody'}")


@with_global_options(**WHERE)
@click.command()
@click.argument("what", metavar="PROJECT|SLOT")
@click.argument("number", type=_NUMBER)
@click.pass_obj
def pin(options: dict[str, Any], what: str, number: int) -> None:
    """Keep a project's slot at the scheduler of a number, whenever that runs.

    While it does not, the slot is elsewhere. All projects of a slot go with it.
    """
    with opened_cluster(options) as opened:
        slot = _slot(opened.directory.read(), what)
        opened.orders.pin(slot, number)
    click.echo(f"slot {slot} is pinned to member {number}")


@with_global_options(**WHERE)
@click.command()
@click.argument("what", metavar="PROJECT|SLOT")
@click.pass_obj
def unpin(options: dict[str, Any], what: str) -> None:
    """Let a project's slot be at any scheduler."""
    with opened_cluster(options) as opened:
        slot = _slot(opened.directory.read(), what)
        opened.orders.unpin(slot)
    click.echo(f"slot {slot} may be anywhere")


@with_global_options(**WHERE)
@click.command()
@click.option("--dry-run", is_flag=True, help="only show what would move")
@click.option("--timeout", default=120.0, show_default=True, help="seconds to wait at most")
@click.pass_obj
def rebalance(options: dict[str, Any], dry_run: bool, timeout: float) -> None:
    """Even the slots out now, once, even if maintenance is on; show what moves.

    Without maintenance the leader does so by itself, and this waits for it.
    """
    projects = _active_projects(options)
    with opened_cluster(options) as opened:
        rebalancing = Rebalancing(opened.orders, opened.directory.read, projects)
        _show(rebalancing.moves())
        if not dry_run:
            rebalancing.run(timeout, threading.Event())


def _active_projects(options: dict[str, Any]) -> Counter[int]:
    """Return the active projects of the slots that have any."""
    with client_of(options) as client:
        projects = client.projects().items
    return Counter(each.slot for each in projects if each.status in ACTIVE)


def _show(moves: list[SlotMove]) -> None:
    """Print the moves by pair of owners."""
    slots: dict[tuple[str, str], list[int]] = {}
    for move in moves:
        pair = tuple(str(one.number) if one else "nobody" for one in (move.source, move.target))
        slots.setdefault((pair[0], pair[1]), []).append(move.slot)
    for (source, target), those in sorted(slots.items()):
        click.echo(f"{source} -> {target}: {len(those)} slots ({', '.join(map(str, those))})")
    click.echo(f"{len(moves)} slots would move" if moves else "nothing would move")


def _slot(cluster: Cluster, what: str) -> int:
    """Return the slot that is named by its number or by a project.

    Raises:
        BadRequest: there is no such slot, or no project can have that name.
    """
    slots = cluster.meta.slots
    if not what.isdecimal():
        try:
            return slot_of(check_project_name(what), slots)
        except BadMessage as error:
            raise BadRequest(str(error)) from error
    if len(what) > len(str(slots)) or int(what) >= slots:
        raise BadRequest(f"there is no slot {what[:20]}: the cluster has {slots}, from 0 on")
    return int(what)


ASSIGNMENT = [maintenance, drain, evict, pin, unpin, rebalance]
