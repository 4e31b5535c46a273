"""Members learn by watches what changed: their next look of their own would come too late.

They look by themselves whenever they renew; here that is minutes away, far beyond all patience.
"""

import threading
from dataclasses import replace

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.limits import LONGEST_LEASE
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


@pytest.fixture
def settings(cluster_settings: Settings) -> Settings:
    """Give the settings of a cluster in which nobody looks by itself for minutes."""
    return replace(
        cluster_settings,
        slots=24,
        lease=LONGEST_LEASE,
        hang=LONGEST_LEASE,
        renewal=LONGEST_LEASE / 3,
    )


def test_a_member_that_joins_is_seen_and_asked_for_is_given_up(crew: Crew):
    """The leader sees the member and the acknowledgement, the members see the assignment."""
    crew.start_and_share(3)


def test_a_member_that_leaves_is_seen(crew: Crew):
    members = crew.start_and_share(3)

    members[2].stop()

    crew.shared_by(*members[:2])


def test_the_leader_that_leaves_is_seen_by_the_next(crew: Crew):
    members = crew.start_and_share(3)

    members[0].stop()

    crew.shared_by(*members[1:])
    assert members[1].coordinator.leading


def test_the_end_of_a_former_self_is_seen(crew: Crew):
    old = crew.start("a")
    number = old.member.number
    again = crew.make("a")
    joining = threading.Thread(target=again.start)
    joining.start()
    eventually(
        lambda: again.coordinator._membership.former_self._patience_ends,
        "waiting for the former self",
    )

    old.stop()

    joining.join()
    assert again.member.number == number


def test_what_another_gave_up_is_seen_by_the_leader(crew: Crew):
    """Several times, for a turn of the leader that is just under way may see it without a watch."""
    leader, other = members = crew.start_and_share(2)
    lines = lines_seen_by(leader)
    for number in range(3):
        other.hold_on.set()
        members.append(crew.start(f"late{number}"))
        # The last that wakes the leader but for the acknowledgement.
        eventually(lambda: lines and len(lines[-1]) == len(members), "the newcomer in line")
        eventually(lambda: other.coordinator.view.releasing, "being asked for slots")

        other.hold_on.clear()

        crew.shared_by(*members)


def lines_seen_by(leader: BareScheduler) -> list[list[str]]:
    """Return a list that gets the candidates of each look that a leader takes."""
    leadership, lines = leader.coordinator._leadership, []
    look = leadership._look

    def looked():
        names = look()
        lines.append(names.candidates)
        return names

    leadership._look = looked
    return lines
