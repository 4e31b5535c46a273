"""Rebalancing: what would move; and the leader evens the slots out once, whoever dies."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event
from typing import NamedTuple

import pytest

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import NEWCOMER, Rebalancing, preview, without_maintenance
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Conflict, TimedOut
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

A, B = MemberId(0, "a"), MemberId(1, "b")
RECORD = Member("h:1", "h", 1, "v", 0.0)


def cluster(owners: str, next_owners: str = "") -> Cluster:
    """Return a cluster with one letter per slot, and who is to get the slot."""
    known = {"a": A, "b": B, ".": None}
    nexts = next_owners or "." * len(owners)
    rows = tuple(Slot(known[o], 1, known[n]) for o, n in zip(owners, nexts, strict=True))
    members = dict.fromkeys((A, B), RECORD)
    return Cluster(Meta(len(rows)), Assignment(1, rows), members=members)


def test_without_a_change_nothing_would_move():
    assert preview(cluster("a" * 64 + "b" * 64), {}) == []


def test_all_slots_of_one_that_leaves_would_move():
    before = cluster("a" * 100 + "b" * 100)
    moves = preview(before, {3: 5}, leaves=[0])
    assert [(move.slot, move.source, move.target) for move in moves] == [
        (slot, A, B) for slot in range(100)
    ]


def test_one_that_joins_would_get_its_share_of_each():
    moves = preview(cluster("a" * 150 + "b" * 150), {}, joins=1)
    assert {move.target for move in moves} == {MemberId(2, NEWCOMER)}
    shares = Counter(move.source for move in moves)
    assert all(45 <= shares[member] <= 55 for member in (A, B))


def test_what_moves_already_counts_as_arrived():
    before = cluster("aaaa" + "aabb", "...." + "bb..")
    assert preview(before, {}) == []
    moves = preview(before, {}, leaves=[1])
    assert [tuple(move) for move in moves] == [(slot, B, A) for slot in (4, 5, 6, 7)]


def test_if_the_last_one_leaves_nothing_can_move():
    alone = Cluster(Meta(2), Assignment(1, (Slot(A, 1),) * 2), members={A: RECORD})
    assert preview(alone, {}, leaves=[0]) == []


HELD = ClusterSettings(maintenance=Maintenance.HOLD)


class Uneven(NamedTuple):
    """A cluster on hold: the first member, who leads, has all slots."""

    first: BareScheduler
    second: BareScheduler
    orders: Orders


@pytest.fixture
def uneven(crew: Crew, connection: Connection, settings: Settings) -> Uneven:
    [first] = crew.start_and_share(1)
    orders = Orders(connection, Tree(settings.root), "me")
    orders.maintain(Maintenance.HOLD)
    eventually(lambda: first.coordinator._shared.current == HELD)
    return Uneven(first, crew.start("second"), orders)


def run(
    orders: Orders,
    read: Callable[[], Cluster],
    timeout: float,
    ended: bool = False,
    projects: Mapping[int, int] | None = None,
) -> None:
    event = Event()
    if ended:
        event.set()
    Rebalancing(orders, read, projects or {}).run(timeout, event)


@pytest.mark.zk
def test_the_slots_are_even_and_maintenance_goes_on(
    uneven: Uneven, crew: Crew, connection: Connection, settings: Settings
):
    run(uneven.orders, crew.cluster, 60)

    crew.shared_by(uneven.first, uneven.second)
    assert uneven.orders.read() == HELD
    events = [event for _, event in EventLog(connection, Tree(settings.root)).read()]
    assert [(each.text, each.who) for each in events if each.kind == "rebalance"] == [
        ("maintenance is suspended while slots move", "me"),
        ("maintenance goes on: the slots were rebalanced", str(uneven.first.member)),
    ]


@pytest.mark.zk
def test_it_is_done_when_the_leader_has_nothing_to_move(uneven: Uneven, crew: Crew):
    moves = preview(without_maintenance(crew.cluster()), {})
    unknown = {move.slot: 9 for move in moves}  # by these the leader's work would be uneven

    run(uneven.orders, crew.cluster, 60, projects=unknown)

    crew.shared_by(uneven.first, uneven.second)
    assert uneven.orders.read() == HELD


@pytest.mark.zk
def test_without_maintenance_it_is_done_when_nothing_moves(
    crew: Crew, connection: Connection, settings: Settings
):
    first, _ = crew.start_and_share(2)
    before = crew.table()
    unknown = dict.fromkeys(first.owned, 9)
    orders = Orders(connection, Tree(settings.root), "me")

    run(orders, crew.cluster, 60, projects=unknown)

    assert crew.table() == before


@pytest.mark.zk
def test_it_is_not_done_while_the_leader_does_nothing(
    crew: Crew, connection: Connection, settings: Settings
):
    [first] = crew.start_and_share(1)
    first.die()
    crew.start("second")

    with pytest.raises(TimedOut):
        run(Orders(connection, Tree(settings.root), "me"), crew.cluster, 3)


@pytest.mark.zk
@pytest.mark.parametrize(
    "order", [Orders.end_rebalance, lambda orders: orders.maintain(Maintenance.HOLD)]
)
def test_one_that_another_ended_is_not_done(
    uneven: Uneven, crew: Crew, order: Callable[[Orders], object]
):
    uneven.first.die()

    def read() -> Cluster:
        order(uneven.orders)
        return crew.cluster()

    with pytest.raises(Conflict, match="6 slots did not move"):
        run(uneven.orders, read, 60)


@pytest.mark.zk
def test_what_moves_after_its_end_is_another_matter(uneven: Uneven, crew: Crew):
    uneven.orders.maintain(Maintenance.ON)

    def read() -> Cluster:
        eventually(lambda: not uneven.orders.read().rebalance)
        uneven.second.hold_on.set()
        uneven.second.coordinator.drain()
        eventually(lambda: uneven.second.coordinator.view.releasing)
        return crew.cluster()

    run(uneven.orders, read, 60)


REQUESTER = """
import sys
from threading import Event
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import Rebalancing
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection
settings = Settings(hosts=sys.argv[1], root=sys.argv[2], slots=12)
connection = Connection(settings)
connection.start()
orders = Orders(connection, Tree(settings.root), "me")
Rebalancing(orders, Directory(settings, connection).read, {}).run(600, Event())
"""


@pytest.mark.zk
def test_maintenance_goes_on_if_the_requester_is_killed(
    uneven: Uneven, crew: Crew, settings: Settings
):
    uneven.first.hold_on.set()
    asking = subprocess.Popen([sys.executable, "-c", REQUESTER, settings.hosts, settings.root])
    try:
        eventually(lambda: uneven.first.coordinator.view.releasing, within=60)
    finally:
        asking.kill()
        asking.wait()
    uneven.first.hold_on.clear()

    crew.shared_by(uneven.first, uneven.second)
    eventually(lambda: uneven.orders.read() == HELD)


@pytest.mark.zk
def test_the_next_leader_completes_it(uneven: Uneven, crew: Crew):
    third = crew.start("third")
    uneven.first.hold_on.set()
    uneven.orders.rebalance()
    eventually(lambda: uneven.first.coordinator.view.releasing)

    uneven.first.die()

    crew.shared_by(uneven.second, third)
    eventually(lambda: uneven.orders.read() == HELD)


@pytest.mark.zk
@pytest.mark.parametrize(
    ("ended", "fault"), [(False, "slots have still to move after 0 s"), (True, "it was ended")]
)
def test_maintenance_goes_on_if_nobody_waits_any_longer(
    uneven: Uneven, crew: Crew, ended: bool, fault: str
):
    uneven.first.hold_on.set()

    with pytest.raises(TimedOut, match=fault):
        run(uneven.orders, crew.cluster, 0, ended)

    assert uneven.orders.read() == HELD


@pytest.mark.zk
def test_what_somebody_orders_meanwhile_ends_it(uneven: Uneven, crew: Crew):
    uneven.first.hold_on.set()

    def read() -> Cluster:
        uneven.orders.maintain(Maintenance.ON)
        return crew.cluster()

    with pytest.raises(Conflict, match="slots did not move"):
        run(uneven.orders, read, 60)
    assert uneven.orders.read() == ClusterSettings(maintenance=Maintenance.ON)


@pytest.mark.zk
def test_without_maintenance_nothing_is_asked_for(
    crew: Crew, connection: Connection, settings: Settings
):
    crew.start_and_share(2)
    orders = Orders(connection, Tree(settings.root), "me")

    run(orders, crew.cluster, 60)

    assert orders.read() == ClusterSettings()


@pytest.mark.zk
def test_settings_that_break_meanwhile_keep_nobody_from_working(
    uneven: Uneven, crew: Crew, connection: Connection, settings: Settings
):
    uneven.first.hold_on.set()
    uneven.orders.rebalance()
    eventually(lambda: uneven.first.coordinator.view.releasing)

    connection.set(Tree(settings.root).settings, b"junk")
    uneven.first.hold_on.clear()

    crew.shared_by(uneven.first, uneven.second)
    assert uneven.first.failure is None
    assert uneven.orders.reset() == ClusterSettings()
