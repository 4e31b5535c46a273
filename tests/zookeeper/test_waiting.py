"""Waiting looks first, again when woken, and gives up in time; an errand is tried until done."""

import threading
from collections.abc import Iterator

import pytest

from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.zookeeper.waiting import Errands, Waiter


def test_what_holds_already_is_not_waited_for():
    assert Waiter().until(lambda: True, 0)


def test_what_never_holds_ends_in_time():
    assert not Waiter().until(lambda: False, 0.01)


def test_a_wake_makes_it_look_again():
    waiting, looks = Waiter(), []

    def third() -> bool:
        looks.append(1)
        threading.Thread(target=waiting.wake).start()
        return len(looks) == 3

    assert waiting.until(third, 60)


def test_a_zookeeper_that_is_away_is_waited_for():
    looks = iter([Unavailable("away"), None])

    def back() -> bool:
        error = next(looks)
        if error:
            raise error
        return True

    assert Waiter().until(back, None)


def test_any_other_error_ends_the_waiting():
    def fail() -> bool:
        raise SessionLost("gone")

    with pytest.raises(SessionLost):
        Waiter().until(fail, 60)


@pytest.fixture
def errands() -> Iterator[Errands]:
    errands = Errands()
    errands.start()
    yield errands
    errands.stop()


def test_what_cannot_be_done_now_is_done_once_it_can_be(errands: Errands):
    tries: list[int] = []
    done = threading.Event()

    def second_time() -> None:
        tries.append(1)
        if len(tries) < 2:
            raise Unavailable("away")
        done.set()

    errands.do_until_done(second_time)

    assert done.wait(60)


def test_an_errand_that_fails_keeps_no_other_from_being_done(errands: Errands):
    done = threading.Event()
    errands.do(lambda: 1 / 0)
    errands.do_until_done(lambda: 1 / 0)
    errands.do(done.set)

    assert done.wait(60)
