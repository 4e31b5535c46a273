"""A leader with nothing to decide asks next to nothing; one with a fault stays, and leads on."""

import logging
from collections.abc import Callable

import pytest

from pyspider_zk.cluster.event_log import EventRecorder
from pyspider_zk.cluster.leader import Leadership
from pyspider_zk.cluster.records import Assignment
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def at_rest(*members: BareScheduler) -> BareScheduler:
    """Return the leader, once it has nothing to decide."""

    def resting() -> list[BareScheduler]:
        return [each for each in members if each.coordinator._leadership._rest is not None]

    eventually(lambda: len(resting()) == 1, "a leader at rest")
    return resting()[0]


def asked_in_five_renewals(
    leader: BareScheduler, version: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """Return the paths that a leader reads while it renews its lease five times."""
    connection, asked = leader.coordinator.connection, set[str]()
    look = connection.look

    def noting(znodes, parents=()):
        asked.update(path for path, _ in [*znodes, *parents])
        return look(znodes, parents)

    before = version()
    monkeypatch.setattr(connection, "look", noting)
    eventually(lambda: version() >= before + 5, "five renewals")
    monkeypatch.undo()
    return asked


@pytest.mark.parametrize("count", [1, 3])
def test_a_leader_at_rest_reads_the_leases_of_the_others(
    crew: Crew, connection, monkeypatch, count: int
):
    members = crew.start_and_share(count)
    leader = at_rest(*members)
    leases = {each: f"{crew.settings.root}/leases/{each.member}" for each in members}

    asked = asked_in_five_renewals(leader, lambda: connection.get(leases[leader])[1], monkeypatch)

    assert asked == (set(leases.values()) if count > 1 else set())


def test_a_leader_at_rest_notices_who_drains(crew: Crew):
    members = crew.start_and_share(2)
    leader = at_rest(*members)
    (other,) = (each for each in members if each is not leader)

    other.coordinator.drain()

    crew.shared_by(leader)


def test_a_leader_at_rest_notices_other_projects(crew: Crew):
    projects = {0: 1}
    members = [crew.start(name, projects=projects) for name in ("one", "two")]
    crew.shared_by(*members)
    at_rest(*members)
    (owner,) = (each for each in members if 0 in each.owned)
    before = crew.assignment().epoch

    projects.update(dict.fromkeys(owner.owned, 5))

    eventually(lambda: crew.assignment().epoch > before, "another assignment")


def test_a_leader_at_rest_notices_an_assignment_that_was_written_by_hand(crew: Crew, connection):
    members = crew.start_and_share(2)
    at_rest(*members)
    path = f"{crew.settings.root}/assignment"
    table, version = connection.get(path)
    vacant = Assignment.vacant(crew.settings.slots)
    slots = Assignment.decode(table, crew.settings.slots)

    connection.set(path, Assignment(slots.epoch + 1, vacant.slots).encode(), version)

    crew.shared_by(*members)


DUTIES = [(Leadership, "_look"), (EventRecorder, "record")]


class FailingDuty:
    """A duty that fails for every leader; counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_args: object, **_named: object) -> object:
        self.count += 1
        raise ValueError("nobody foresaw this")


@pytest.mark.parametrize(("where", "duty"), DUTIES)
def test_a_duty_that_fails_ends_nobody_and_is_told_once(
    crew: Crew, monkeypatch, caplog: pytest.LogCaptureFixture, where: type, duty: str
):
    caplog.set_level(logging.INFO, "pyspider_zk.cluster.coordinator")
    fault = FailingDuty()
    with monkeypatch.context() as patched:
        patched.setattr(where, duty, fault)
        alone = crew.start()
        eventually(lambda: fault.count >= 3, "leading fails again and again")
        renewals = crew.cluster().renewals[alone.member]
        eventually(lambda: crew.cluster().renewals[alone.member] > renewals, "the lease goes on")

    crew.shared_by(alone)
    eventually(lambda: "leading works again" in caplog.messages, "it is told that it works again")

    assert alone.failure is None
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(told) == 1
    assert "nobody foresaw this" in told[0].getMessage()
    assert told[0].exc_info


@pytest.mark.parametrize(("where", "duty"), [(EventRecorder, "record"), (Leadership, "_sweep")])
def test_the_slots_of_the_dead_move_though_another_duty_fails_each_time(
    crew: Crew, monkeypatch, where: type, duty: str
):
    first, second, third = crew.start_and_share(3, mortal=[2])
    monkeypatch.setattr(where, duty, FailingDuty())

    third.die()
    crew.shared_by(first, second)

    assert [first.failure, second.failure] == [None, None]
