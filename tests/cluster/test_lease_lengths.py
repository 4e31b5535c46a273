"""Members whose leases last for different times: nobody is taken for dead too early."""

from dataclasses import replace

import pytest

from pyspider_zk.cluster.records import Load
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from tests.support.crew import BareScheduler, Cable, Crew

pytestmark = pytest.mark.zk


def start_with_lease(crew: Crew, lease: float, hosts: str = "", name: str = "") -> BareScheduler:
    """Start a member that is set up with another lease than the others."""
    crew.settings, settings = replace(crew.settings, lease=lease), crew.settings
    try:
        return crew.start(name, hosts)
    finally:
        crew.settings = settings


def test_a_member_of_a_longer_lease_keeps_its_slots_until_its_own_lease_ended(
    crew: Crew, cable: Cable
):
    near = start_with_lease(crew, 1.0)
    far = start_with_lease(crew, 3.0, hosts=cable.address)
    crew.shared_by(near, far)

    cable.cut()
    crew.shared_by(near)  # the crew finds fences that were open to both

    cable.mend()


def test_a_leader_of_a_longer_lease_takes_the_slots_of_one_of_a_shorter_as_soon_as_it_ended(
    crew: Crew,
):
    slow = start_with_lease(crew, 300.0)
    quick = start_with_lease(crew, 1.0)
    crew.shared_by(slow, quick)

    quick.die()

    crew.shared_by(slow)


def test_a_lease_tells_how_long_it_lasts(crew: Crew, connection, settings: Settings):
    member = start_with_lease(crew, 2.5)
    crew.shared_by(member)

    data, _ = connection.get(Tree(settings.root).lease(member.member))

    assert Load.decode(data).lease == 2.5
