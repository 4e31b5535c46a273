"""Members that die, hang, lose their session or their link: nobody overlaps, nothing stays."""

from pathlib import Path

import pytest

from pyspider_zk.cluster.rules import Rules
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.connected import looking
from tests.support.crew import MORTAL, BareScheduler, Cable, Crew, expire
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def test_the_slots_of_a_member_that_stopped_dead_are_taken_over_by_lease_age(crew: Crew):
    members = crew.start_and_share(3, mortal=[2])
    lease_until = dead_since(members[2])

    crew.shared_by(*members[:2])

    rules = Rules(lease=MORTAL["lease"])
    assert boottime() - (lease_until - rules.open_for) >= rules.expiry - 0.001


def test_a_dead_members_ephemeral_does_not_keep_its_slots(crew: Crew, settings: Settings):
    members = crew.start_and_share(2, mortal=[1])
    dead_since(members[1])

    crew.shared_by(members[0])

    with looking(settings) as directory:
        assert members[1].member in directory.members()


def test_the_next_leads_and_takes_over_when_the_leader_stops_dead_and_its_session_ends(crew: Crew):
    members = crew.start_and_share(3, mortal=[0])
    dead_since(members[0])
    expire(members[0].coordinator.connection)

    crew.shared_by(*members[1:])

    assert members[1].coordinator.leading


def test_a_leader_that_stopped_dead_is_deposed_before_its_session_ends(crew: Crew, settings):
    members = crew.start_and_share(3, mortal=[0])
    dead_since(members[0])

    crew.shared_by(*members[1:])

    with looking(settings) as directory:
        assert members[0].member in directory.members()
    assert members[1].coordinator.leading


def test_a_deposed_leader_that_comes_back_stands_again_as_the_last(crew: Crew, cable: Cable):
    far = crew.start("far", hosts=cable.address, **MORTAL)
    near, third = crew.start("near"), crew.start("third")
    crew.shared_by(far, near, third)
    cable.cut()
    crew.shared_by(near, third)

    cable.mend()
    crew.shared_by(far, near, third)

    leading = [member.coordinator.leading for member in (far, near, third)]
    assert leading == [False, True, False]


def test_the_leader_and_the_next_in_line_may_die_at_once(crew: Crew):
    members = crew.start_and_share(4, mortal=[0, 1])
    for member in members[:2]:
        member.die()

    crew.shared_by(*members[2:])

    assert [member.coordinator.leading for member in members[2:]] == [True, False]


def test_more_may_die_at_once_than_a_candidate_watches(crew: Crew):
    members = crew.start_and_share(6, mortal=range(4))
    for member in members[:4]:
        member.die()

    crew.shared_by(*members[4:])

    assert [member.coordinator.leading for member in members[4:]] == [True, False]


def test_two_may_die_at_once(crew: Crew):
    members = crew.start_and_share(3, mortal=[1, 2])
    for member in members[1:]:
        member.die()

    crew.shared_by(members[0])


def test_a_member_whose_loop_hangs_loses_its_slots(crew: Crew):
    members = crew.start_and_share(2, mortal=[1])

    members[1].hang()
    crew.shared_by(members[0])

    assert members[1].open == set()


def test_an_expired_session_means_another_incarnation_that_owns_nothing_yet(crew: Crew):
    members = crew.start_and_share(2, mortal=[1])
    before, slots = members[1].member, dict(members[1].owned)
    lease_until = members[1].coordinator.view.lease_until

    expire(members[1].coordinator.connection)
    while (table := crew.table()) and boottime() < lease_until:
        assert {row.owner for row in table} <= {before, members[0].member}
    joined_anew(members[1], before)
    crew.shared_by(*members)

    assert members[1].member.incarnation != before.incarnation
    table = crew.table()
    assert before not in {row.owner for row in table}
    assert all(table[slot].epoch > epoch for slot, epoch in slots.items())


def test_the_leader_comes_back_after_an_expired_session_as_the_last_in_line(crew: Crew):
    members = crew.start_and_share(3, mortal=[0])
    before = members[0].member

    expire(members[0].coordinator.connection)
    joined_anew(members[0], before)
    crew.shared_by(*members)

    assert [member.coordinator.leading for member in members] == [False, True, False]


def test_a_member_behind_a_silent_link_shuts_its_fences_itself(crew: Crew, cable: Cable):
    near = crew.start("near")
    far = crew.start("far", hosts=cable.address, **MORTAL)
    crew.shared_by(near, far)

    cable.cut()
    eventually(lambda: not far.open)
    crew.shared_by(near)

    cable.mend()
    crew.shared_by(near, far)


def test_a_short_suspension_changes_nothing(crew: Crew, cable: Cable):
    near = crew.start("near")
    far = crew.start("far", hosts=cable.address)
    crew.shared_by(near, far)
    before, member, connected = crew.table(), far.member, cable.connected

    cable.drop()
    eventually(lambda: cable.connected > connected, "another connection")
    for _ in range(2):
        renewed_after(far, far.coordinator.view.lease_until)
    crew.shared_by(near, far)

    assert crew.table() == before
    assert far.member == member


def test_zookeeper_away_longer_than_the_lease_moves_nothing(tmp_path: Path, zk_root: str):
    server = ZooKeeperServer(tmp_path, own_port())
    server.start()
    settings = Settings(
        hosts=server.address, root=zk_root, slots=12, renewal=0.5, lease=5.0, session=40.0
    )  # who is back a lease later than another is taken for dead: a busy machine needs seconds
    crew = Crew(settings)
    try:
        members = crew.start_and_share(3)
        before = crew.table()
        server.stop()
        eventually(lambda: not any(member.open for member in members))
        server = ZooKeeperServer(tmp_path, port=server.port)
        server.start()
        crew.shared_by(*members)
        assert crew.table() == before
    finally:
        crew.stop()
        server.stop()
    assert crew.overlaps == []


def test_stopping_while_zookeeper_is_away_comes_to_an_end(tmp_path: Path, zk_root: str):
    with ZooKeeperServer(tmp_path) as server:
        settings = Settings(hosts=server.address, root=zk_root, slots=12)
        scheduler = BareScheduler(settings).start()
    scheduler.stop()

    assert scheduler.open == set()


def test_stopping_behind_a_silent_link_comes_to_an_end(crew: Crew, cable: Cable):
    far = crew.start("far", hosts=cable.address, **MORTAL, session=4.0)
    crew.shared_by(far)

    cable.cut()
    far.stop()

    assert far.open == set()


def test_a_cluster_whose_nodes_were_deleted_founds_itself_anew(crew: Crew, connection):
    (alone,) = crew.start_and_share(1)
    before = alone.member

    for path in ("leases", "acks", "ids"):
        delete_all(connection, f"{crew.settings.root}/{path}")
    joined_anew(alone, before)

    crew.shared_by(alone)


def test_what_a_dead_member_left_behind_is_swept(crew: Crew, connection):
    members = crew.start_and_share(2, mortal=[1])
    gone = members[1].member
    dead_since(members[1])
    expire(members[1].coordinator.connection)

    crew.shared_by(members[0])

    eventually(lambda: str(gone) not in connection.children(f"{crew.settings.root}/leases"))
    eventually(lambda: str(gone) not in connection.children(f"{crew.settings.root}/acks"))


def test_another_slot_count_in_the_meta_ends_the_member_that_comes_back(crew: Crew, connection):
    (alone,) = crew.start_and_share(1)
    path = f"{crew.settings.root}/meta"

    connection.set(path, connection.get(path)[0].replace(b"12", b"24"))
    expire(alone.coordinator.connection)
    eventually(lambda: alone.failure)

    assert "24 slots" in str(alone.failure.__cause__)
    assert alone.open == set()
    connection.set(path, connection.get(path)[0].replace(b"24", b"12"))


def dead_since(scheduler: BareScheduler) -> float:
    """Stop it dead; return when its fence shuts for good."""
    scheduler.die()
    return scheduler.coordinator.view.lease_until


def joined_anew(scheduler: BareScheduler, before: MemberId) -> None:
    eventually(lambda: scheduler.coordinator.member not in (None, before), "joining anew")


def renewed_after(scheduler: BareScheduler, lease_until: float) -> None:
    eventually(lambda: scheduler.coordinator.view.lease_until > lease_until, "a longer lease")


def delete_all(connection, path: str) -> None:
    for name in connection.children(path):
        connection.delete(f"{path}/{name}")
    connection.delete(path)


def test_a_living_member_whose_registration_is_gone_joins_again(
    crew: Crew, connection: Connection, settings: Settings
):
    (old,) = crew.start_and_share(1)
    old.hold_on.set()
    new, before = crew.start("new"), old.member
    eventually(lambda: old.coordinator.view.releasing, "slots to release")

    connection.delete(Tree(settings.root).ack(before))
    old.hold_on.clear()

    eventually(lambda: old.coordinator.member not in (before, None), "joining again")
    crew.shared_by(old, new)


def test_a_living_member_that_is_gone_before_it_drains_drains_as_another(
    crew: Crew, connection: Connection, settings: Settings
):
    first, second = crew.start_and_share(2)
    before = first.member

    connection.delete(Tree(settings.root).member(before))
    first.coordinator.drain()

    eventually(lambda: first.coordinator.member not in (before, None), "joining again")
    crew.shared_by(second)
    assert crew.cluster().members[first.member].draining
