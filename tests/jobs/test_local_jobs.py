"""How many projects are carried out together."""

import pytest

from pyspider_zk.jobs.local_jobs import FIRST, LARGEST, LONG, SMALLEST, Pace


def test_quick_chunks_grow_up_to_a_limit() -> None:
    pace = Pace()
    for _ in range(10):
        pace.succeeded(pace.most(1.0), 0.01)
    assert pace.most(1.0) == LARGEST


def test_slow_chunks_shrink_and_not_below_what_is_worth_a_transaction() -> None:
    pace = Pace()
    for _ in range(10):
        pace.succeeded(pace.most(1.0), 2 * LONG)
    assert pace.most(1.0) == SMALLEST


def test_a_small_chunk_makes_none_smaller() -> None:
    pace = Pace()
    pace.succeeded(1, 0.01)
    assert pace.most(1.0) == FIRST


@pytest.mark.parametrize("culprit", [0, 13, 63])
def test_a_culprit_stands_alone_after_few_tries(culprit: int) -> None:
    pace, left, tries = Pace(), list(range(64)), 0
    while left:
        chunk = left[: pace.most(1.0)]
        tries += 1
        if culprit in chunk:
            pace.failed(len(chunk))
            left = left if len(chunk) > 1 else left[1:]
        else:
            pace.succeeded(len(chunk), 0.01)
            left = left[len(chunk) :]
    assert tries < 32


def test_without_time_left_one_is_done() -> None:
    assert Pace().most(0.0) == 1
