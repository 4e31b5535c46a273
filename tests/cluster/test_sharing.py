"""Members share the slots; what changes moves what must, and nothing else."""

import threading
from dataclasses import replace

import pytest

from pyspider_zk.cluster import rules
from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.records import Slot, Trigger
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def test_a_member_alone_gets_every_slot(crew: Crew):
    (alone,) = crew.start_and_share(1)

    assert alone.coordinator.leading
    assert set(alone.owned) == set(range(12))


def test_three_members_share_all_slots_evenly(crew: Crew):
    members = crew.start_and_share(3)

    assert sorted(len(member.owned) for member in members) == [4, 4, 4]
    assert [member.coordinator.leading for member in members] == [True, False, False]


def test_a_newborn_cluster_waits_for_its_members_before_the_first_grant(crew: Crew):
    crew.settings = replace(crew.settings, await_members=2)
    first = crew.start("a")
    eventually(lambda: first.coordinator.leading)
    wait_for_renewals(first, 3)
    assert first.owned == {}
    (born,) = {row.epoch for row in crew.table()}

    crew.shared_by(first, crew.start("b"))

    assert {row.epoch for row in crew.table()} == {born + 1}


def test_busy_slots_are_shared_by_their_projects(crew: Crew):
    projects = {0: 8, 1: 4, 2: 4}
    a, b = crew.start("a", projects=projects), crew.start("b", projects=projects)
    crew.shared_by(a, b)

    assert {sum(projects.get(slot, 0) for slot in member.owned) for member in (a, b)} == {8}


def test_a_joining_member_gets_only_what_must_move(crew: Crew):
    members = crew.start_and_share(2)
    before = crew.table()

    members.append(crew.start("late"))
    crew.shared_by(*members)

    after = crew.table()
    moved = [slot for slot in range(12) if after[slot] != before[slot]]
    assert len(moved) == 4
    assert {after[slot].owner for slot in moved} == {members[2].member}
    assert all(after[slot].epoch == before[slot].epoch + 1 for slot in moved)


def test_the_slots_of_a_member_that_leaves_are_free_at_once(crew: Crew):
    members = crew.start_and_share(3)
    before = crew.table()
    gone = members[2].member

    members[2].stop()
    crew.shared_by(*members[:2])

    after = crew.table()
    moved = {slot for slot in range(12) if after[slot] != before[slot]}
    assert moved == {slot for slot in range(12) if before[slot].owner == gone}


def test_the_next_leads_when_the_leader_leaves(crew: Crew):
    members = crew.start_and_share(3)

    members[0].stop()
    crew.shared_by(*members[1:])

    assert [member.coordinator.leading for member in members[1:]] == [True, False]


def test_a_draining_member_loses_all_slots_without_an_interruption(crew: Crew):
    members = crew.start_and_share(3)

    members[0].coordinator.drain()
    crew.shared_by(*members[1:])

    assert members[0].owned == {}
    assert not members[0].coordinator.alone


def test_a_draining_member_without_others_is_alone(crew: Crew):
    (alone,) = crew.start_and_share(1)

    alone.coordinator.drain()

    eventually(lambda: alone.coordinator.alone)
    assert len(alone.open) == 12


def test_a_draining_member_is_alone_while_maintenance_holds_the_slots(
    crew: Crew, connection: Connection, caplog: pytest.LogCaptureFixture
):
    first, second = crew.start_and_share(2)
    before = crew.table()
    orders = Orders(connection, Tree(crew.settings.root), "ann")
    orders.maintain(Maintenance.HOLD)
    orders.set({"restart_delay": 7})
    eventually(lambda: first.coordinator.restart_delay == second.coordinator.restart_delay == 7)

    first.coordinator.drain()

    eventually(lambda: first.coordinator.alone)
    assert (
        caplog.messages.count(
            "maintenance is on hold: the slots stay, and wait for number 0 to be back"
        )
        == 1
    )
    assert crew.table() == before
    orders.maintain(Maintenance.OFF)
    crew.shared_by(second)
    assert not first.coordinator.alone


def test_a_slot_is_granted_only_after_its_owner_released_it(crew: Crew):
    (old,) = crew.start_and_share(1)
    old.hold_on.set()
    before = crew.table()

    new = crew.start("new")
    eventually(lambda: len(old.coordinator.view.releasing) == 6)
    wait_for_renewals(old, 5)

    assert new.owned == {}
    assert len(old.open) == 12
    old.hold_on.clear()
    crew.shared_by(old, new)
    assert all(crew.table()[slot].epoch == before[slot].epoch + 1 for slot in new.owned)


def test_the_fence_of_a_released_slot_is_shut_before_anybody_is_told(crew: Crew):
    (old,) = crew.start_and_share(1)
    old.hold_on.set()
    crew.start("new").hold_on.set()
    eventually(lambda: old.coordinator.view.releasing)
    releasing = dict(old.coordinator.view.releasing)

    old.coordinator.released(releasing)

    eventually(lambda: not old.coordinator.view.releasing)
    assert not any(old.coordinator.open(slot, epoch) for slot, epoch in releasing.items())


def test_a_release_that_nobody_asked_for_is_ignored(crew: Crew):
    a, _ = crew.start_and_share(2)
    before = crew.table()

    a.coordinator.released(a.owned)
    wait_for_renewals(a, 3)

    assert crew.table() == before
    assert len(a.open) == 6


def test_numbers_have_no_gaps_even_if_all_join_at_once(crew: Crew):
    members: list[MemberId] = []
    threads = [
        threading.Thread(target=lambda name=name: members.append(crew.start(name).member))
        for name in "abcdef"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(member.number for member in members) == list(range(6))


def test_a_name_keeps_its_number(crew: Crew):
    a, b = crew.start("a"), crew.start("b")
    numbers = a.member.number, b.member.number
    a.stop()
    b.stop()

    again = crew.start("b"), crew.start("a")

    assert (again[1].member.number, again[0].member.number) == numbers
    assert again[0].member != b.coordinator.member


def test_the_watch_over_the_fences_notices_a_grant_before_the_release(settings, cable, monkeypatch):
    rule = rules._freed_by

    def too_early(number: int, slot: Slot, *rest: object) -> Trigger | None:
        return Trigger.ACKNOWLEDGED if slot.next else rule(number, slot, *rest)

    monkeypatch.setattr(rules, "_freed_by", too_early)
    crew = Crew(replace(settings, lease=20.0))
    try:
        near, far = crew.start("near"), crew.start("far", hosts=cable.address)
        crew.shared_by(near, far)
        cable.cut()
        crew.start("third")
        eventually(lambda: crew.overlaps)
    finally:
        cable.mend()
        crew.stop()


def wait_for_renewals(scheduler, count: int) -> None:
    """Wait until a lease was renewed some more times: time enough for whatever must not happen."""
    seen = {scheduler.coordinator.view.lease_until}

    def renewed() -> bool:
        seen.add(scheduler.coordinator.view.lease_until)
        return len(seen) > count

    eventually(renewed)
