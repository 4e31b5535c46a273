"""The cluster asks little of ZooKeeper: few writes, bounded watches, no hot loops."""

import time

import pytest

from tests.support.crew import MORTAL, BareScheduler, Cable, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def test_a_steady_cluster_writes_little_more_than_its_renewals(
    crew: Crew, connection, zookeeper_writes
):
    members = crew.start_and_share(3)
    leases = [f"{crew.settings.root}/leases/{member.member}" for member in members]

    def renewals() -> int:
        return sum(lease[1] for lease in connection.find_all(leases) if lease)

    # Each pair in an order in which a member that renews in between only adds to the renewals.
    began, before, first = time.monotonic(), renewals(), zookeeper_writes()
    eventually(lambda: renewals() >= before + 60)
    writes, count = zookeeper_writes() - first, renewals() - before
    intervals = (time.monotonic() - began) / crew.settings.renewal

    assert writes <= 1.1 * count + 3
    assert writes <= 1.5 * len(members) * intervals  # by the clock: with defaults, 1.5 a second


def test_watches_do_not_pile_up(crew: Crew):
    members = crew.start_and_share(2)
    for _ in range(5):
        visitor = crew.start("visitor")
        crew.shared_by(*members, visitor)
        visitor.stop()
        crew.shared_by(*members)
    for _ in range(50):
        members[0].coordinator._loop.wake()
        members[1].coordinator._on_assignment(None)

    for member in members:
        eventually(lambda member=member: watchers(member) <= 6 + len(members), "few watches")


def test_a_member_whose_loop_hangs_does_not_spin(crew: Crew, monkeypatch):
    (alone,) = crew.start_and_share(1, mortal=[0])
    steps = count_steps(alone, monkeypatch)

    alone.hang()
    eventually(lambda: not alone.open)

    assert len(steps) <= 60


def test_a_member_without_zookeeper_does_not_spin(crew: Crew, cable: Cable, monkeypatch):
    far = crew.start("far", hosts=cable.address, **MORTAL)
    crew.shared_by(far)
    steps = count_steps(far, monkeypatch)

    cable.cut()
    cable.drop()
    eventually(lambda: not far.open)

    assert len(steps) <= 60
    cable.mend()


def test_a_lost_zookeeper_is_logged_once_and_its_return_once(crew: Crew, cable: Cable, caplog):
    caplog.set_level("INFO", logger="pyspider_zk")
    far = crew.start("far", hosts=cable.address, **MORTAL)
    crew.shared_by(far)
    caplog.clear()

    cable.cut()
    cable.drop()
    eventually(lambda: not far.open)
    cable.mend()
    crew.shared_by(far)

    assert len(caplog.records) <= 6


def count_steps(scheduler: BareScheduler, monkeypatch) -> list[int]:
    steps: list[int] = []
    step = scheduler.coordinator._step
    monkeypatch.setattr(scheduler.coordinator, "_step", lambda: (steps.append(1), step()))
    return steps


def watchers(scheduler: BareScheduler) -> int:
    client = scheduler.coordinator.connection._client
    tables = (client._data_watchers, client._child_watchers)
    return sum(len(found) for table in tables for found in list(table.values()))


@pytest.mark.parametrize(("members", "hung"), [(2, 2), (4, 2)])
def test_members_whose_loops_hang_do_not_depose_each_other_for_ever(
    crew: Crew, zookeeper_writes, monkeypatch, members, hung
):
    team = crew.start_and_share(members, mortal=range(hung))
    for member in team[:hung]:
        member.hang()
    eventually(lambda: not any(member.open for member in team[:hung]))
    if members > hung:
        crew.shared_by(*team[hung:])
    steps = [count_steps(member, monkeypatch) for member in team]
    first = zookeeper_writes()

    eventually(lambda: all(len(taken) >= 30 for taken in steps))

    writes = zookeeper_writes() - first
    renewals = sum(len(taken) for taken in steps[hung:])  # and those in between
    assert writes <= 1.2 * renewals + 6
