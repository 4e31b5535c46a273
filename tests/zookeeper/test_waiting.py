"""Waiting: looks first, looks again when woken, and gives up in time."""

import threading

import pytest

from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.zookeeper.waiting import Waiter


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
