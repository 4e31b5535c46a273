"""How many projects are carried out together."""

import pytest

from pyspider_zk.jobs.pace import FIRST, LARGEST, LONG, SMALLEST, Pace


def test_quick_groups_grow_up_to_a_limit() -> None:
    pace = Pace()
    for _ in range(10):
        pace.succeeded(pace.most(1.0), 0.01)
    assert pace.most(1.0) == LARGEST


def test_slow_groups_shrink_and_not_below_what_is_worth_a_transaction() -> None:
    pace = Pace()
    for _ in range(10):
        pace.succeeded(pace.most(1.0), 2 * LONG)
    assert pace.most(1.0) == SMALLEST


def test_a_small_group_makes_none_smaller() -> None:
    pace = Pace()
    pace.succeeded(1, 0.01)
    assert pace.most(1.0) == FIRST


@pytest.mark.parametrize("culprit", [0, 13, 63])
def test_a_culprit_stands_alone_after_few_tries(culprit: int) -> None:
    pace, left, tries = Pace(), list(range(64)), 0
    while left:
        group = left[: pace.most(1.0)]
        tries += 1
        if culprit in group:
            pace.failed(len(group))
            left = left if len(group) > 1 else left[1:]
        else:
            pace.succeeded(len(group), 0.01)
            left = left[len(group) :]
    assert tries < 32


def test_without_time_left_one_is_done() -> None:
    assert Pace().most(0.0) == 1
