"""Pauses grow with the failures, up to the longest."""

from pyspider_zk.pauses import doubling, pause_after


def test_they_double_up_to_the_longest() -> None:
    assert doubling(0.5, 3.0) == (0.5, 1.0, 2.0, 3.0)
    assert doubling(1.0, 4.0) == (1.0, 2.0, 4.0)
    assert doubling(5.0, 3.0) == (3.0,)


def test_the_last_one_serves_again_and_again() -> None:
    assert [pause_after(failures, (1.0, 5.0)) for failures in (1, 2, 3, 1000)] == [1, 5, 5, 5]
