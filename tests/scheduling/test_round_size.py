"""Rounds are short while slots with little to do are beside one with much, and else large."""

import pytest

from pyspider_zk.scheduling.round_size import ENOUGH, HOLD, SHORT, RoundSize
from tests.support.clock import Clock

LARGE = 1000
BIG, SMALL, OTHER = 1, 2, 3  # slots


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def size(clock: Clock) -> RoundSize:
    """Return the size of rounds after the first ones."""
    made = RoundSize(lambda: LARGE, clock)
    assert made.limit == SHORT
    clock.now += HOLD
    assert made.limit == LARGE
    return made


def test_the_first_rounds_are_short_from_the_first_one_on(clock: Clock) -> None:
    size = RoundSize(lambda: LARGE, clock)
    clock.now += 60.0  # nothing to do until then

    assert size.limit == SHORT
    clock.now += HOLD / 2
    assert size.limit == SHORT
    clock.now += HOLD / 2
    assert size.limit == LARGE


@pytest.mark.parametrize(
    "counts",
    [
        {BIG: ENOUGH, SMALL: 1},
        {BIG: ENOUGH, SMALL: 10, OTHER: 10},
        {BIG: 800, **dict.fromkeys(range(10, 20), 20)},
        {**dict.fromkeys(range(20, 60), 25), SMALL: 1},
    ],
)
def test_rounds_are_short_while_little_is_beside_much(
    size: RoundSize, clock: Clock, counts: dict[int, int]
) -> None:
    size.note(counts)
    assert size.limit == SHORT

    clock.now += HOLD - 0.1
    assert size.limit == SHORT

    clock.now += 0.1
    assert size.limit == LARGE


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {BIG: LARGE},
        {BIG: LARGE, SMALL: 0},
        {BIG: SHORT - 2, SMALL: 1},  # such a round is no longer than a short one
        {BIG: 500, SMALL: 500},
        {BIG: 900, SMALL: 100},
        {BIG: 500, **dict.fromkeys(range(10, 60), 10)},  # most of the work is theirs
        dict.fromkeys(range(100), 10),
        {**dict.fromkeys(range(100, 200), 10), SMALL: 1},  # short ones would look at all of them
        {**dict.fromkeys(range(36), 26), **dict.fromkeys(range(36, 40), 16)},  # by chance
    ],
)
def test_otherwise_they_are_large(size: RoundSize, counts: dict[int, int]) -> None:
    size.note(counts)

    assert size.limit == LARGE


def test_a_few_messages_do_not_tell_who_has_little_to_do(size: RoundSize) -> None:
    """Rounds that are short would stay so: in each of them some slot has few by chance."""
    slots = range(40)
    for few in slots:
        size.note({slot: 1 if slot == few else 6 for slot in slots})

        assert size.limit == LARGE


def test_a_slot_that_has_little_to_do_in_many_rounds_is_found(size: RoundSize) -> None:
    for _ in range(ENOUGH // SHORT):
        assert size.limit == LARGE
        size.note({BIG: SHORT, SMALL: 1})

    assert size.limit == SHORT


def test_they_stay_short_until_nothing_small_came_for_a_while(
    size: RoundSize, clock: Clock
) -> None:
    for _ in range(5):
        size.note({BIG: ENOUGH, SMALL: 1})
        clock.now += HOLD / 2
        size.note({BIG: ENOUGH})
        assert size.limit == SHORT

    clock.now += HOLD
    size.note({BIG: ENOUGH})
    assert size.limit == LARGE


def test_no_round_is_larger_than_it_may_be(clock: Clock) -> None:
    assert RoundSize(lambda: 50, clock).limit == 50
