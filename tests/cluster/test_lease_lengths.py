"""Members whose leases last for different times: nobody is taken for dead too early."""

import pytest

from pyspider_zk.cluster.records import Load
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from tests.support.crew import Cable, Crew

pytestmark = pytest.mark.zk


def test_a_member_of_a_longer_lease_keeps_its_slots_until_its_own_lease_ended(
    crew: Crew, cable: Cable
):
    near = crew.start(lease=1.0)
    far = crew.start(hosts=cable.address, lease=3.0)
    crew.shared_by(near, far)

    cable.cut()
    crew.shared_by(near)  # the crew finds fences that were open to both

    cable.mend()


def test_a_leader_of_a_longer_lease_takes_the_slots_of_one_of_a_shorter_as_soon_as_it_ended(
    crew: Crew,
):
    slow = crew.start(lease=300.0)
    quick = crew.start(lease=1.0)
    crew.shared_by(slow, quick)

    quick.die()

    crew.shared_by(slow)


def test_a_lease_tells_how_long_it_lasts(crew: Crew, connection, settings: Settings):
    member = crew.start(lease=2.5)
    crew.shared_by(member)

    data, _ = connection.get(Tree(settings.root).lease(member.member))

    assert Load.decode(data).lease == 2.5
