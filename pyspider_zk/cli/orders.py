"""Commands that give orders to a cluster which runs.

Who owns which slots (maintenance, drain, evict, pin, rebalance), what all go by (settings), and the
last step of an upgrade.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import click

from pyspider_zk.cli.output import json_option, remarked_if_unlogged
from pyspider_zk.cli.target import client_of, of_cluster, target, user
from pyspider_zk.client import Project
from pyspider_zk.cluster.cluster_settings import CHOICES, NAMES, ClusterSettings, Maintenance
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.meta import raise_protocol
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import Rebalancing, SlotMove
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, BadRequest, ClusterError
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.rpc.client import request_drain
from pyspider_zk.zookeeper.connection import connected

_NUMBER = click.IntRange(0)


class OpenCluster(NamedTuple):
    """What a command may do with a cluster, over one connection."""

    own: Settings
    directory: Directory
    orders: Orders
    events: EventLog


@contextmanager
def opened_cluster(options: dict[str, Any]) -> Iterator[OpenCluster]:
    """Open the command's cluster.

    Raises:
        Unavailable: no ZooKeeper answers.
    """
    own = target(options).settings
    with connected(own) as connection:
        tree = Tree(own.root)
        directory, events = Directory(own, connection), EventLog(connection, tree)
        yield OpenCluster(own, directory, Orders(connection, tree, user()), events)


@of_cluster
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


@of_cluster
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
        with remarked_if_unlogged():
            opened.events.append(Event(EventKind.DRAIN, text, time.time(), user()))
    if cluster.settings.maintenance is Maintenance.HOLD:
        held = "maintenance is on hold: its slots stay, and wait for its number to be back"
        click.echo(held, err=True)
    elif all(one.draining for other, one in cluster.members.items() if other != member):
        click.echo("there is no other scheduler: its slots wait for one to join", err=True)
    click.echo(f"member {number} drains")


@of_cluster
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


@of_cluster
@click.command()
@click.argument("what", metavar="PROJECT|SLOT")
@click.argument("number", type=_NUMBER)
@click.pass_obj
def pin(options: dict[str, Any], what: str, number: int) -> None:
    """Keep a project's slot at the scheduler of a number, whenever that runs.

    While it does not, the slot is elsewhere. All projects of a slot go with it.
    """
    with opened_cluster(options) as opened:
        slot = _slot(opened.directory.read(), what, options)
        opened.orders.pin(slot, number)
    click.echo(f"slot {slot} is pinned to member {number}")


@of_cluster
@click.command()
@click.argument("what", metavar="PROJECT|SLOT")
@click.pass_obj
def unpin(options: dict[str, Any], what: str) -> None:
    """Let a project's slot be at any scheduler."""
    with opened_cluster(options) as opened:
        slot = _slot(opened.directory.read(), what, options)
        opened.orders.unpin(slot)
    click.echo(f"slot {slot} may be anywhere")


@of_cluster
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
        _show_moves(rebalancing.moves())
        if not dry_run:
            rebalancing.run(timeout, threading.Event())


@of_cluster
@click.command()
@click.pass_obj
def upgrade(options: dict[str, Any]) -> None:
    """Let the cluster go by the highest protocol that all who run speak.

    Say it when all processes are of the newer version and you will not go back: an older version
    that does not speak that protocol cannot join any more.
    """
    own = target(options).settings
    with connected(own) as connection:
        before, after = raise_protocol(connection, Tree(own.root), user())
    if before == after:
        click.echo(f"the cluster goes by protocol {after} already: nobody speaks a higher one")
    else:
        click.echo(f"the cluster goes by protocol {after} now; before it was {before}")


@click.group("settings")
def settings() -> None:
    """Show or change what the whole cluster goes by, while it runs."""


@of_cluster
@settings.command("list")
@json_option
@click.pass_obj
def list_settings(options: dict[str, Any], as_json: bool) -> None:
    """Show the cluster-wide settings."""
    with opened_cluster(options) as opened:
        found = opened.orders.read()
    click.echo(json.dumps(asdict(found)) if as_json else _lines(found))


@of_cluster
@settings.command("set")
@click.argument("name")
@click.argument("value")
@click.pass_obj
def set_setting(options: dict[str, Any], name: str, value: str) -> None:
    """Set lease, renewal, restart_delay, weigh_every (seconds), moves, or weigh_by (a word)."""
    given = value if name in CHOICES else _number(name, value)
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.set({name: given})))


@of_cluster
@settings.command()
@click.argument("name")
@click.pass_obj
def unset(options: dict[str, Any], name: str) -> None:
    """Let a setting be what it is by default, or in each scheduler's configuration."""
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.set({name: None})))


@of_cluster
@settings.command()
@click.pass_obj
def reset(options: dict[str, Any]) -> None:
    """Unset everything, pins and maintenance too; also if the znode is damaged."""
    with opened_cluster(options) as opened:
        click.echo(_lines(opened.orders.reset()))


def _active_projects(options: dict[str, Any]) -> Counter[int]:
    """Return the active projects of the slots that have any."""
    with client_of(options) as client:
        projects = client.projects().items
    return Counter(each.slot for each in projects if each.status in ACTIVE)


def _show_moves(moves: list[SlotMove]) -> None:
    """Print the moves by pair of owners."""
    slots: dict[tuple[str, str], list[int]] = {}
    for move in moves:
        pair = tuple(str(one.number) if one else "nobody" for one in (move.source, move.target))
        slots.setdefault((pair[0], pair[1]), []).append(move.slot)
    for (source, goal), those in sorted(slots.items()):
        click.echo(f"{source} -> {goal}: {len(those)} slots ({', '.join(map(str, those))})")
    click.echo(f"{len(moves)} slots would move" if moves else "nothing would move")


def _slot(cluster: Cluster, what: str, options: dict[str, Any]) -> int:
    """Return the slot that is named by its number or by a project.

    Raises:
        BadRequest: there is no such slot, no project can have that name, or it names both.
    """
    slots = cluster.meta.slots
    if not what.isdecimal():
        try:
            return slot_of(check_project_name(what), slots)
        except BadMessage as error:
            raise BadRequest(str(error)) from error
    digits = what.lstrip("0") or "0"
    if len(digits) > len(str(slots)) or int(digits) >= slots:
        raise BadRequest(f"there is no slot {what[:20]}: the cluster has {slots}, from 0 on")
    for project in _projects_named(what, options):
        if project.slot != int(digits):
            raise BadRequest(
                f"{what} is also a project, in slot {project.slot}: say {project.slot} if that is"
                f" meant, and 0{what} for slot {digits}"
            )
    return int(digits)


def _projects_named(name: str, options: dict[str, Any]) -> list[Project]:
    """Return the project of a name; none if no scheduler can be asked: a pin needs none."""
    try:
        with client_of(options) as client:
            return client.projects(names=[name]).items
    except ClusterError:
        return []


def _number(name: str, text: str) -> float:
    """Read a number.

    Raises:
        BadRequest: it is none.
    """
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError as error:
        raise BadRequest(f"{name}: {text[:100]!r} is no number") from error


def _lines(found: ClusterSettings) -> str:
    return "\n".join(f"{name} = {_value(getattr(found, name))}" for name in NAMES)


def _value(value: float | str | None) -> str:
    if value is None:
        return "as each scheduler is configured"
    return value if isinstance(value, str) else f"{value:g}"


ORDERS = [maintenance, drain, evict, pin, unpin, rebalance, settings, upgrade]
