"""Rebalancing: the leader evens the slots out once, and maintenance goes on, whoever dies."""

import subprocess
import sys
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import pytest

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.orders import Orders, SettingsStore
from pyspider_zk.cluster.rebalancing import Rebalancing
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Conflict, TimedOut
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

HELD = ClusterSettings(maintenance=Maintenance.HOLD)


class Uneven(NamedTuple):
    """A cluster on hold: the first member, who leads, has all slots."""

    first: BareScheduler
    second: BareScheduler
    store: SettingsStore

    @property
    def orders(self) -> Orders:
        return Orders(self.store, "me")


@pytest.fixture
def uneven(crew: Crew, connection: Connection, settings: Settings) -> Uneven:
    [first] = crew.start_and_share(1)
    store = SettingsStore(connection, Tree(settings.root))
    Orders(store, "me").maintain(Maintenance.HOLD)
    eventually(lambda: first.coordinator._shared.current == HELD)
    return Uneven(first, crew.start("second"), store)


def run(orders: Orders, read: Callable[[], Cluster], timeout: float, ended: bool = False) -> None:
    event = Event()
    if ended:
        event.set()
    Rebalancing(orders, read, {}).run(timeout, event)


def test_the_slots_are_even_and_maintenance_goes_on(
    uneven: Uneven, crew: Crew, connection: Connection, settings: Settings
):
    run(uneven.orders, crew.cluster, 60)

    crew.shared_by(uneven.first, uneven.second)
    assert uneven.store.read() == HELD
    events = [event for _, event in EventLog(connection, Tree(settings.root)).read()]
    assert [(each.text, each.who) for each in events if each.kind == "rebalance"] == [
        ("maintenance is suspended while slots move", "me"),
        ("maintenance goes on: the slots were rebalanced", str(uneven.first.member)),
    ]


REQUESTER = """
import sys
from threading import Event
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import Rebalancing
from pyspider_zk.cluster.orders import SettingsStore
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection
settings = Settings(hosts=sys.argv[1], root=sys.argv[2], slots=12)
connection = Connection(settings)
connection.start()
orders = Orders(SettingsStore(connection, Tree(settings.root)), "me")
Rebalancing(orders, Directory(settings, connection).read, {}).run(600, Event())
"""


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
    eventually(lambda: uneven.store.read() == HELD)


def test_the_next_leader_completes_it(uneven: Uneven, crew: Crew):
    third = crew.start("third")
    uneven.first.hold_on.set()
    uneven.orders.rebalance()
    eventually(lambda: uneven.first.coordinator.view.releasing)

    uneven.first.die()

    crew.shared_by(uneven.second, third)
    eventually(lambda: uneven.store.read() == HELD)


@pytest.mark.parametrize(
    ("ended", "fault"), [(False, "slots still move after 0 s"), (True, "it was ended")]
)
def test_maintenance_goes_on_if_nobody_waits_any_longer(
    uneven: Uneven, crew: Crew, ended: bool, fault: str
):
    uneven.first.hold_on.set()

    with pytest.raises(TimedOut, match=fault):
        run(uneven.orders, crew.cluster, 0, ended)

    assert uneven.store.read() == HELD


def test_what_somebody_orders_meanwhile_ends_it(uneven: Uneven, crew: Crew):
    uneven.first.hold_on.set()

    def read() -> Cluster:
        uneven.orders.maintain(Maintenance.ON)
        return crew.cluster()

    with pytest.raises(Conflict, match="slots did not move"):
        run(uneven.orders, read, 60)
    assert uneven.store.read() == ClusterSettings(maintenance=Maintenance.ON)


def test_without_maintenance_nothing_is_asked_for(
    crew: Crew, connection: Connection, settings: Settings
):
    crew.start_and_share(2)
    store = SettingsStore(connection, Tree(settings.root))

    run(Orders(store, "me"), crew.cluster, 60)

    assert store.read() == ClusterSettings()


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
