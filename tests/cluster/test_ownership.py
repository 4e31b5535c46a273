"""A fence is open for all slots if it is open for each."""

from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.cluster.rules import View
from tests.support.sole_owner import SoleOwner

SLOTS = 4
EPOCHS = st.dictionaries(st.integers(0, SLOTS - 1), st.integers(1, 2))
LEASES = st.sampled_from([float("-inf"), float("inf")])


@given(held=EPOCHS, owned=EPOCHS, releasing=EPOCHS, lease=LEASES)
def test_all_is_open_if_each_is(
    held: dict[int, int], owned: dict[int, int], releasing: dict[int, int], lease: float
) -> None:
    fence = Fence(SLOTS)
    fence.held, owner = held, SoleOwner(SLOTS)
    owner.view = View(owned, releasing, lease)
    fence.ownership = owner
    assert fence.all_open() == all(owner.open(slot, epoch) for slot, epoch in held.items())


def test_nothing_is_open_before_the_member_has_joined() -> None:
    assert not Fence(SLOTS).all_open()
