"""Tables that show a cluster on a terminal."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from pyspider_zk.cli.overview import DEAD_LETTERS
from pyspider_zk.cli.times import age
from pyspider_zk.cluster.alerts import Observation, Severity, alerts
from pyspider_zk.cluster.records import Cluster, Component, Member
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.terminal import cell

WIDE = 110  # columns of a terminal that shows everything

_SHORT = 8  # digits that distinguish two incarnations


def render(cluster: Cluster, queues: Mapping[str, int], now: float | None = None) -> RenderableType:
    """Return the cluster as tables; a narrow terminal gets fewer columns.

    Args:
        cluster: the state in ZooKeeper.
        queues: messages per queue; empty if unknown.
        now: seconds since the epoch; None: the clock's.
    """
    return _ClusterTables(cluster, queues, time.time() if now is None else now)


@dataclass(frozen=True)
class _ClusterTables:
    cluster: Cluster
    queues: Mapping[str, int]
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        yield cell(headline(self.cluster), "bold")
        yield from _protocol(self.cluster)
        yield _members(self.cluster, self.now, wide)
        yield from _alerts(self.cluster)
        tables = [_components(self.cluster, self.now, wide)]
        if self.queues:
            tables.append(_queues(self.queues))
        yield Columns(tables, padding=(0, 3))


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
    table = _table(*names, right=numbers)
    counts = cluster.slot_counts()
    for member, record in sorted(cluster.members.items()):
        load = cluster.load(member)
        state, up = _state(cluster, member, record), age(record.started, now)
        row = (member.number, state, counts[member], load.projects, load.pending)
        origin = (record.host, member.incarnation[:_SHORT], record.version) if wide else ()
        cells = (*row, record.address, record.pid, up, *origin)
        table.add_row(*map(cell, cells), style="yellow" if record.draining else None)
    return table


def _state(cluster: Cluster, member: MemberId, record: Member) -> str:
    states = ["leader"] if member == cluster.leader else []
    states += ["draining"] if record.draining else []
    states += ["evicted"] if member.number in cluster.settings.evicted else []
    return " ".join([*states, *(f"without {name}" for name in cluster.load(member).away)])


def _components(cluster: Cluster, now: float, wide: bool) -> Table:
    more = ("host", "version") if wide else ()
    table = _table("component", "address", "pid", "up", *more, right=("pid", "up"))
    for kind, found in sorted(cluster.components.items()):
        for record in _by_age(found.values()):
            origin = (record.host, record.version) if wide else ()
            up = age(record.started, now)
            cells = (kind.value, record.address, record.pid, up, *origin)
            table.add_row(*map(cell, cells))
    return table


def _queues(queues: Mapping[str, int]) -> Table:
    table = _table("queue", "messages", right=("messages",))
    for name, length in queues.items():
        style = "red" if name == DEAD_LETTERS and length else None
        table.add_row(cell(name), f"{length:,}", style=style)
    return table


def _table(*names: str, right: Iterable[str]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return table


def _by_age(components: Iterable[Component]) -> list[Component]:
    return sorted(components, key=lambda component: (component.started, component.pid))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
