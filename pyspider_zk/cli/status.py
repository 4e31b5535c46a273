"""The command ``status``: a cluster and its queues at one moment, as tables or JSON."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import click
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyspider_zk.cli.following import complain, keep_looking, until_interrupted
from pyspider_zk.cli.output import age, console, json_option, table
from pyspider_zk.cli.target import (
    ITS_QUEUE,
    ITS_ZOOKEEPER,
    ClusterTarget,
    target,
    with_global_options,
)
from pyspider_zk.cluster.alerts import Observation, Severity, alerts
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster, Component, Member
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.queue_sizes import DEAD_LETTERS, QueueSizes
from pyspider_zk.terminal import cell

PATIENCE = 5.0  # seconds for ZooKeeper's first response
REFRESH = 1.0  # seconds between two updates of --watch
WIDE = 110  # columns of a terminal that shows everything
_SHORT = 8  # digits that distinguish two incarnations


@with_global_options(zookeeper_option=ITS_ZOOKEEPER, message_queue=ITS_QUEUE)
@click.command()
@json_option
@click.option("--watch", is_flag=True, help="update every second, until Ctrl-C")
@click.pass_obj
def status(options: dict[str, Any], as_json: bool, watch: bool) -> None:
    """Show members, components and queues.

    Without --zookeeper it shows the cluster that `pyspider-zk up` runs in this folder.
    """
    if watch:
        _watch(target(options), as_json)
        return
    with Observer(target(options)) as observer:
        _show(observer.read(), as_json)


@dataclass(frozen=True)
class Overview:
    """The cluster and its queues at one moment.

    Attributes:
        queues: messages per queue, a kind of slot queue counting as one; empty if unknown.
        fault: why the queues are unknown.
    """

    cluster: Cluster
    queues: Mapping[str, int]
    fault: ClusterError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the form that ``status --json`` prints."""
        return {**self.cluster.as_dict(), "queues": dict(self.queues) or None}


class Observer:
    """Reads a cluster repeatedly, over connections that stay open. One thread.

    Making it raises `ConfigError` if a cluster cannot use this message queue, entering it
    `Unavailable` if no ZooKeeper answers.
    """

    def __init__(self, target: ClusterTarget) -> None:
        self._directory = Directory(target.settings)
        url = target.message_queue
        self._queues = connect(url, 0, target.settings.slots) if url else None

    def __enter__(self) -> Self:
        self._directory.start(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.stop()
        if self._queues is not None:
            self._queues.close()

    def read(self) -> Overview:
        """Return the cluster, also while the message queue is unavailable.

        Raises:
            Unavailable: ZooKeeper does not answer.
            Mismatch: there is no cluster.
        """
        cluster = self._directory.read()
        if self._queues is None:
            return Overview(cluster, {})
        try:
            return Overview(cluster, QueueSizes(self._queues).read())
        except ClusterError as fault:
            return Overview(cluster, {}, fault)


def picture(overview: Overview, width: int, now: float | None = None) -> RenderableType:
    """Return an overview as tables; a narrow terminal gets fewer columns.

    Args:
        now: until when ages are counted, seconds since the epoch; None: until this moment.
    """
    cluster, wide = overview.cluster, width >= WIDE
    now = time.time() if now is None else now
    tables = [_components(cluster, now, wide)]
    if overview.queues:
        tables.append(_queues(overview.queues))
    return Group(
        cell(headline(cluster), "bold"),
        *_protocol(cluster),
        _members(cluster, now, wide),
        *_alerts(cluster),
        Columns(tables, padding=(0, 3)),
    )


def screenful(overview: Overview, width: int) -> RenderableType:
    """Return an overview as a terminal shows it that stays: also why there are no queues."""
    faults = [cell(overview.fault, "bold red")] if overview.fault else []
    return Group(picture(overview, width), *faults)


def headline(cluster: Cluster) -> str:
    """Return the cluster in one line."""
    leader = f"leader {cluster.leader.number}" if cluster.leader else "no leader"
    pins = len(cluster.settings.pins)
    moving = sum(slot.next is not None for slot in cluster.assignment.slots)
    return (
        f"{_counted(len(cluster.members), 'member')}, {leader}, {cluster.meta.slots} slots"
        f"{f' ({moving} moving)' if moving else ''}{f' ({pins} pinned)' if pins else ''}"
        f", epoch {cluster.assignment.epoch}"
    )


def _protocol(cluster: Cluster) -> Iterator[Text]:
    """Yield what is left to do of an upgrade."""
    in_use, following = cluster.meta.protocol, cluster.next_protocol
    if cluster.can_be_raised:
        yield cell(f"protocol {in_use}, and all speak a higher one: `pyspider-zk upgrade`")
    elif following > in_use:
        old = cluster.held_back_by()
        more = f" and {len(old) - 1} more" if len(old) > 1 else ""
        yield cell(f"protocol {in_use}, and {following} waits for {old[0]}{more}")


def _alerts(cluster: Cluster) -> Iterator[Text]:
    for alert in alerts(Observation(cluster)):
        serious = alert.severity is Severity.SERIOUS
        yield cell(alert.text, "bold red" if serious else "yellow")


def _members(cluster: Cluster, now: float, wide: bool) -> Table:
    numbers = ("member", "slots", "projects", "pending", "pid", "up")
    more = ("host", "incarnation", "version") if wide else ()
    names = ("member", "state", "slots", "projects", "pending", "address", "pid", "up", *more)
    rows = table(*names, right=numbers)
    counts = cluster.slot_counts()
    for member, record in sorted(cluster.members.items()):
        load = cluster.load(member)
        state, up = _state(cluster, member, record), age(record.started, now)
        row = (member.number, state, counts[member], load.projects, load.pending)
        origin = (record.host, member.incarnation[:_SHORT], record.version) if wide else ()
        cells = (*row, record.address, record.pid, up, *origin)
        rows.add_row(*map(cell, cells), style="yellow" if record.draining else None)
    return rows


def _state(cluster: Cluster, member: MemberId, record: Member) -> str:
    states = ["leader"] if member == cluster.leader else []
    states += ["draining"] if record.draining else []
    states += ["evicted"] if member.number in cluster.settings.evicted else []
    return " ".join([*states, *(f"without {name}" for name in cluster.load(member).away)])


def _components(cluster: Cluster, now: float, wide: bool) -> Table:
    more = ("oldest task", "host", "version") if wide else ()
    numbers = ("pid", "up", "tasks/s", "MB", "oldest")
    rows = table("component", "address", *numbers, *more, right=numbers)
    for kind, found in sorted(cluster.components.items()):
        for record in _by_age(found.values()):
            origin = (record.oldest, record.host, record.version) if wide else ()
            up = age(record.started, now)
            oldest = age(record.oldest_began, now) if record.oldest else ""
            does = (f"{record.tasks_per_s:g}", record.memory // 2**20, oldest)
            cells = (kind.value, record.address, record.pid, up, *does, *origin)
            rows.add_row(*map(cell, cells))
    return rows


def _queues(queues: Mapping[str, int]) -> Table:
    rows = table("queue", "messages", right=("messages",))
    for name, length in queues.items():
        style = "red" if name == DEAD_LETTERS and length else None
        rows.add_row(cell(name), f"{length:,}", style=style)
    return rows


def _by_age(components: Iterable[Component]) -> list[Component]:
    return sorted(components, key=lambda component: (component.started, component.pid))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _show(overview: Overview, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(overview.as_dict()))
    else:
        shown = console()
        shown.print(picture(overview, shown.width))
    if overview.fault is not None:
        raise overview.fault


def _watch(where: ClusterTarget, as_json: bool) -> None:
    """Show the cluster every second until Ctrl-C: in place on a terminal, else one by one."""
    in_place = sys.stdout.isatty() and not as_json
    screen = Live(auto_refresh=False) if in_place else nullcontext()
    with until_interrupted() as ends, Observer(where) as observer, screen as live:

        def look() -> None:
            if live is None:
                _show(observer.read(), as_json)
            else:
                live.update(screenful(observer.read(), live.console.width), refresh=True)

        def tell(error: Unavailable) -> None:
            if live is None:
                complain(error)
            else:
                live.update(cell(error, "bold red"), refresh=True)

        look()
        keep_looking(look, ends, REFRESH, tell)
