"""A leader with nothing to decide asks next to nothing, and notices each change at once."""

from collections.abc import Callable

import pytest

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
