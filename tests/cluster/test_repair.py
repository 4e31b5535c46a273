"""What is written in place of an assignment that nobody can read, and when."""

import pytest

from pyspider_zk.cluster.records import Assignment, Slot
from pyspider_zk.cluster.rules import Rules, Stamp, repaired
from pyspider_zk.groups.ids import MemberId

RULES = Rules(lease=4.0)
NOW = 1000.0
A = MemberId(0, "a")
KNOWN = Assignment(20, (Slot(A, 7), Slot(A, 9, MemberId(1, "b"))))
ENDED, HOLDS = Stamp(3, NOW - 5, 4.0), Stamp(3, NOW - 4, 4.0)


def test_the_last_table_that_was_written_goes_on_whatever_holds():
    table = repaired((KNOWN, 31), 2, 31, [HOLDS], NOW, RULES)

    assert table == Assignment(21, KNOWN.slots)


@pytest.mark.parametrize("known", [None, (KNOWN, 30)])
def test_nothing_is_written_while_somebody_may_hold_slots_by_another_table(known):
    assert repaired(known, 2, 31, [ENDED, HOLDS], NOW, RULES) is None


def test_a_longer_lease_is_waited_for():
    assert repaired(None, 2, 31, [Stamp(3, NOW - 5, 6.0)], NOW, RULES) is None


@pytest.mark.parametrize("known", [None, (KNOWN, 30)])
def test_once_all_leases_ended_nobody_owns_anything_at_an_epoch_that_never_was(known):
    table = repaired(known, 2, 31, [ENDED], NOW, RULES)

    assert table == Assignment(32, (Slot(epoch=32), Slot(epoch=32)))


def test_epochs_grow_even_if_the_znode_was_made_anew():
    table = repaired((KNOWN, 30), 2, 0, [], NOW, RULES)

    assert table is not None
    assert {row.epoch for row in table.slots} == {21}


def test_epochs_begin_where_those_of_a_new_cluster_do_if_nobody_knows_how_high_they_were():
    table = repaired(None, 2, 31, [], NOW, RULES, first=1_800_000_000)

    assert table is not None
    assert {row.epoch for row in table.slots} == {1_800_000_032}


def test_who_never_renewed_holds_nothing():
    assert repaired(None, 2, 31, [Stamp(0, NOW, 4.0)], NOW, RULES) is not None
