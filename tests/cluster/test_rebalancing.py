"""Rebalancing: maintenance is suspended, and goes on whatever happens."""

from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.rebalancing import Rebalancing
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.cluster.settings_store import SettingsStore
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import TimedOut, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import connected
from tests.support.crew import Cable, Crew

pytestmark = pytest.mark.zk

A, B = MemberId(0, "a"), MemberId(1, "b")
MEMBERS = dict.fromkeys((A, B), Member("h:1", "h", 1, "v", 0.0))
STUCK = Cluster(Meta(64), Assignment(1, (Slot(A, 1),) * 64), members=MEMBERS)
"""A cluster whose leader moves nothing."""


@pytest.fixture
def store(crew: Crew, connection: Connection, settings: Settings) -> SettingsStore:
    crew.start_and_share(1)
    return SettingsStore(connection, Tree(settings.root))


@pytest.fixture
def orders(store: SettingsStore) -> Orders:
    made = Orders(store, "me")
    made.maintain(Maintenance.HOLD)
    return made


def run(orders: Orders, read: Callable[[], Cluster], ended: Event | None = None) -> None:
    Rebalancing(orders, read, {}).run(0, ended or Event())


def test_maintenance_goes_on_if_slots_do_not_move(orders: Orders, store: SettingsStore):
    seen = []

    def read() -> Cluster:
        seen.append(store.read().maintenance)
        return STUCK

    with pytest.raises(TimedOut, match="slots still move after 0 s"):
        run(orders, read)
    assert set(seen) == {Maintenance.OFF}
    assert store.read().maintenance is Maintenance.HOLD


def test_maintenance_goes_on_if_the_cluster_cannot_be_read(orders: Orders, store: SettingsStore):
    def read() -> Cluster:
        raise Unavailable("away")

    with pytest.raises(Unavailable):
        run(orders, read)
    assert store.read().maintenance is Maintenance.HOLD


@pytest.mark.parametrize("lost", [Unavailable("no reply"), KeyboardInterrupt()], ids=repr)
def test_maintenance_goes_on_if_the_reply_to_its_suspension_is_lost(
    orders: Orders, store: SettingsStore, monkeypatch, lost: BaseException
):
    change = store.change

    def lose(*order: Any) -> None:
        change(*order)
        monkeypatch.undo()
        raise lost

    monkeypatch.setattr(store, "change", lose)
    with pytest.raises(type(lost)):
        run(orders, lambda: STUCK)
    assert store.read().maintenance is Maintenance.HOLD


class MendingEvent(Event):
    """Mends a cable when somebody begins to wait."""

    def __init__(self, cable: Cable) -> None:
        super().__init__()
        self._cable = cable

    def wait(self, timeout: float | None = None) -> bool:
        self._cable.mend()
        return super().wait(timeout)


@pytest.mark.usefixtures("orders")
def test_maintenance_goes_on_once_zookeeper_answers_again(
    settings: Settings, store: SettingsStore, cable: Cable
):
    def read() -> Cluster:
        cable.cut()
        raise Unavailable("away")

    with connected(replace(settings, hosts=cable.address), timeout=3.0) as far:
        orders = Orders(SettingsStore(far, Tree(settings.root)), "me")
        with pytest.raises(Unavailable):
            Rebalancing(orders, read, {}).run(60, MendingEvent(cable))
    assert store.read().maintenance is Maintenance.HOLD


def test_maintenance_goes_on_if_it_is_ended(orders: Orders, store: SettingsStore):
    ended = Event()
    ended.set()
    with pytest.raises(TimedOut, match="it was ended"):
        run(orders, lambda: STUCK, ended)
    assert store.read().maintenance is Maintenance.HOLD


def test_what_somebody_orders_meanwhile_stays(orders: Orders, store: SettingsStore):
    def read() -> Cluster:
        orders.maintain(Maintenance.ON)
        return STUCK

    with pytest.raises(TimedOut):
        run(orders, read)
    assert store.read().maintenance is Maintenance.ON


def test_one_that_finds_maintenance_suspended_does_not_end_it(orders: Orders, store: SettingsStore):
    def read() -> Cluster:
        orders.maintain(Maintenance.HOLD)  # the other one is done
        return Cluster(Meta(1), Assignment(1, (Slot(A, 1),)), members={A: MEMBERS[A]})

    orders.suspend_maintenance()
    run(orders, read)
    assert store.read().maintenance is Maintenance.HOLD
