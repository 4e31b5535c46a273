"""When rounds begin, of which kind they are, and when the loop rests."""

import threading
from collections.abc import Callable

import pytest

from pyspider_zk.scheduling.round_pace import RoundPace

INTERVAL = 0.1


class Time(threading.Event):
    """A clock that only moves when somebody waits, or is said to work.

    Attributes:
        message: after how many seconds of a wait somebody wakes the loop; None: nobody does.
        rests: how long the loop slept, each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.message: float | None = None
        self.rests: list[float] = []

    def clock(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self.is_set():
            message, self.message = self.message, None
            self.now += timeout if message is None else min(timeout, message)
        return self.is_set()

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> RoundPace:
    """Give the pace of a loop that just did its first whole round."""
    pace = RoundPace(lambda: INTERVAL, time.clock, time, time.sleep)
    assert await_round(pace)
    with pace.whole_round():
        pass
    return pace


def await_round(pace: RoundPace, *, is_busy: bool = False, may_find_more: bool = False) -> bool:
    return pace.await_round(is_busy=is_busy, may_find_more=may_find_more)


def small_round(pace: RoundPace, time: Time, taken: float, *, is_left: bool = False) -> None:
    with pace.small_round(lambda: is_left):
        time.now += taken


def test_a_whole_round_begins_an_interval_after_the_end_of_the_last(
    pace: RoundPace, time: Time
) -> None:
    before = time.now

    assert await_round(pace)
    assert time.now == pytest.approx(before + INTERVAL)


def test_a_message_makes_a_small_round_and_puts_off_no_whole_one(
    pace: RoundPace, time: Time
) -> None:
    before, time.message = time.now, 0.03

    assert not await_round(pace)
    assert time.now == pytest.approx(before + 0.03)
    assert await_round(pace)
    assert time.now == pytest.approx(before + INTERVAL)


@pytest.mark.parametrize("request_it", [RoundPace.wake, RoundPace.hurry])
def test_what_comes_during_a_round_is_not_waited_for_once(
    pace: RoundPace, time: Time, request_it: Callable[[RoundPace], None]
) -> None:
    before = time.now
    request_it(pace)

    assert await_round(pace) == (request_it is RoundPace.hurry)
    assert time.now == before
    assert await_round(pace)
    assert time.now == pytest.approx(before + INTERVAL)


def test_who_hurries_gets_one_whole_round(pace: RoundPace, time: Time) -> None:
    pace.hurry()
    assert await_round(pace)
    with pace.whole_round():
        pass

    time.message = 0.03
    assert not await_round(pace)


def test_a_round_that_failed_is_not_done_again_at_once(pace: RoundPace, time: Time) -> None:
    with pytest.raises(ZeroDivisionError), pace.whole_round():
        raise ZeroDivisionError
    before = time.now

    assert await_round(pace)
    assert time.now == pytest.approx(before + INTERVAL)


@pytest.mark.parametrize("left", ["is_busy", "may_find_more"])
def test_what_is_left_is_not_waited_for(pace: RoundPace, time: Time, left: str) -> None:
    before = time.now

    assert await_round(pace, **{left: True}) == (left == "is_busy")
    assert time.now == before


@pytest.mark.parametrize(
    ("waited", "taken", "rest"),
    [(0.0, 0.02, 0.02), (0.005, 0.02, 0.015), (0.03, 0.02, 0.0), (0.0, 5.0, INTERVAL)],
)
def test_before_or_after_a_small_round_the_loop_rests_as_long_as_that_takes(
    pace: RoundPace, time: Time, waited: float, taken: float, rest: float
) -> None:
    time.message = waited
    await_round(pace)

    small_round(pace, time, taken)

    assert time.rests == pytest.approx([rest])


def test_there_is_no_rest_while_messages_are_left(pace: RoundPace, time: Time) -> None:
    small_round(pace, time, 0.02, is_left=True)

    assert time.rests == []


def test_a_pause_ends_early_if_a_round_is_requested(pace: RoundPace, time: Time) -> None:
    time.message = 0.2
    before = time.now

    pace.pause(1.0)

    assert time.now == pytest.approx(before + 0.2)
