"""Schedulers take the cluster-wide settings over while they run; damaged ones change nothing."""

from collections.abc import Callable

import pytest

from pyspider_zk.cluster.cluster_settings import MOST_NUMBER, ClusterSettings, Maintenance
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.records import LeaseTerms
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadRequest, Conflict, Mismatch
from pyspider_zk.limits import LONGEST_LEASE, MOST_SLOTS
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


@pytest.fixture
def tree(settings: Settings) -> Tree:
    return Tree(settings.root)


@pytest.fixture
def orders(connection: Connection, tree: Tree) -> Orders:
    return Orders(connection, tree, "me")


def lease_of(connection: Connection, tree: Tree, member: BareScheduler) -> float:
    return LeaseTerms.decode(connection.get(tree.lease(member.member))[0]).lease


def numbers(crew: Crew) -> list[int | None]:
    return [row.owner.number if row.owner else None for row in crew.table()]


@pytest.mark.parametrize("lease", [9.0, 40.0])
def test_members_take_another_lease_over_and_keep_their_slots(
    crew: Crew, connection, tree: Tree, orders: Orders, lease: float
):
    members = crew.start_and_share(2)
    before = crew.table()

    orders.set({"lease": lease})

    eventually(lambda: {lease_of(connection, tree, each) for each in members} == {lease})
    crew.shared_by(*members)
    assert crew.table() == before


def test_a_member_that_joins_begins_with_the_cluster_wide_lease(
    crew: Crew, connection, tree: Tree, orders: Orders
):
    members = crew.start_and_share(1)
    orders.set({"lease": LONGEST_LEASE})

    members.append(crew.start("late"))

    eventually(lambda: {lease_of(connection, tree, each) for each in members} == {LONGEST_LEASE})


def test_an_unset_lease_is_each_members_own_again(
    crew: Crew, connection, tree: Tree, orders: Orders
):
    (alone,) = crew.start_and_share(1)
    orders.set({"lease": 300.0})
    eventually(lambda: lease_of(connection, tree, alone) == 300.0)

    orders.set({"lease": None})

    eventually(lambda: lease_of(connection, tree, alone) == crew.settings.lease)


@pytest.mark.parametrize("junk", [b"\xff\x00", b'{"lease": 1e9}', b'{"restart_delay": "long"}'])
def test_damaged_settings_are_passed_over_and_the_last_good_ones_stay(
    crew: Crew, connection, tree: Tree, orders: Orders, junk: bytes
):
    (alone,) = crew.start_and_share(1)
    orders.set({"restart_delay": 9.0})
    eventually(lambda: alone.coordinator.restart_delay == 9.0)

    connection.set(tree.settings, junk)

    unreadable = alone.coordinator.connection.unreadable
    eventually(lambda: tree.settings in unreadable.mapping())
    assert alone.coordinator.restart_delay == 9.0
    with pytest.raises(Conflict, match="settings reset"):
        orders.set({"restart_delay": 1.0})

    orders.reset()

    eventually(lambda: alone.coordinator.restart_delay == 0.0)
    assert tree.settings not in unreadable.mapping()


def test_settings_that_were_deleted_are_made_anew_with_the_last_good_values(
    crew: Crew, connection, tree: Tree, orders: Orders
):
    (alone,) = crew.start_and_share(1)
    orders.set({"restart_delay": 9.0})
    eventually(lambda: alone.coordinator.restart_delay == 9.0)

    connection.delete(tree.settings)

    eventually(lambda: connection.find(tree.settings))
    assert orders.read() == ClusterSettings(restart_delay=9.0)
    orders.set({"restart_delay": 8.0})
    eventually(lambda: alone.coordinator.restart_delay == 8.0)


def test_each_change_has_an_event_with_the_user_and_no_change_has_none(
    crew: Crew, connection, tree: Tree, orders: Orders
):
    crew.start_and_share(1)

    for _ in range(2):
        orders.set({"moves": 5, "lease": None})
        orders.maintain(Maintenance.HOLD)
        orders.evict(7)
        orders.pin(3, 7)

    events = [event for _, event in EventLog(connection, tree).read() if event.who == "me"]
    assert [event.kind for event in events] == ["settings", "maintenance", "evict", "pin"]
    assert events[0].text == "moves set to 5, lease unset"


@pytest.mark.parametrize(
    "order",
    [
        lambda orders: orders.evict(MOST_NUMBER + 1),
        lambda orders: orders.pin(3, MOST_NUMBER + 1),
        lambda orders: orders.pin(MOST_SLOTS, 0),
    ],
)
def test_an_order_that_no_scheduler_could_read_is_refused(
    crew: Crew, orders: Orders, order: Callable[[Orders], object]
):
    crew.start_and_share(1)
    before = orders.maintain(Maintenance.HOLD)

    with pytest.raises(BadRequest, match=r"no (member has number|cluster has slot)"):
        order(orders)

    assert orders.read() == before


def test_what_is_taken_back_leaves_the_settings_as_they_were(crew: Crew, orders: Orders):
    crew.start_and_share(1)
    orders.evict(8)
    before = orders.pin(4, 8)

    evicted, pinned = orders.evict(7), orders.pin(3, 7)

    assert (evicted.evicted, dict(pinned.pins)) == ((7, 8), {4: 8, 3: 7})
    orders.admit(7)
    assert orders.unpin(3) == before == orders.read()


def test_without_a_cluster_there_are_no_settings(orders: Orders):
    with pytest.raises(Mismatch, match="no cluster"):
        orders.set({"moves": 5})


def test_a_change_by_somebody_else_in_between_is_not_lost(
    crew: Crew, connection, orders: Orders, monkeypatch
):
    crew.start_and_share(1)
    multi = connection.multi

    def late(*steps):
        monkeypatch.undo()
        orders.set({"restart_delay": 9.0})
        return multi(*steps)

    monkeypatch.setattr(connection, "multi", late)
    orders.set({"moves": 5})

    assert orders.read() == ClusterSettings(restart_delay=9.0, moves=5)


def test_maintenance_gives_a_newcomer_nothing_and_the_slots_of_the_dead_to_others(
    crew: Crew, orders: Orders
):
    first, second = crew.start_and_share(2, mortal=[1])
    orders.maintain(Maintenance.ON)
    eventually(lambda: first.coordinator._shared.current.maintenance is Maintenance.ON)
    before = crew.table()

    late = crew.start("late")
    second.die()
    eventually(lambda: second.member not in {row.owner for row in crew.table()})

    kept = [slot for slot, row in enumerate(before) if row.owner == first.member]
    assert {crew.table()[slot] for slot in kept} == {before[slot] for slot in kept}
    orders.maintain(Maintenance.OFF)
    crew.shared_by(first, late)


def test_on_hold_the_slots_of_one_that_left_wait_for_its_number(crew: Crew, orders: Orders):
    first, second = crew.start_and_share(2)
    orders.maintain(Maintenance.HOLD)
    eventually(lambda: first.coordinator._shared.current.maintenance is Maintenance.HOLD)
    before = numbers(crew)

    second.stop()
    crew.shared_by(first, crew.start("scheduler1"))

    assert numbers(crew) == before


def test_one_that_is_evicted_owns_nothing_until_it_is_admitted(crew: Crew, orders: Orders):
    first, second = crew.start_and_share(2)

    orders.evict(second.member.number)
    crew.shared_by(first)
    orders.admit(second.member.number)

    crew.shared_by(first, second)


def test_a_pinned_slot_goes_to_its_member_and_elsewhere_while_that_is_away(
    crew: Crew, orders: Orders
):
    first, second = crew.start_and_share(2)
    slot = next(iter(first.owned))

    orders.pin(slot, second.member.number)
    eventually(lambda: slot in second.owned)
    second.stop()
    eventually(lambda: slot in first.owned)
    again = crew.start("scheduler1")

    eventually(lambda: slot in again.owned)
