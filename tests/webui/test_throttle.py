"""Wrong passwords are counted per user and per peer, in bounded memory."""

from collections.abc import Callable

import pytest

from pyspider_zk.webui.logins import PER_PEER, PER_USER, Key, Throttle, peer_key
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.mark.parametrize(("kind", "limit"), [("user", PER_USER), ("peer", PER_PEER)])
def test_after_so_many_the_next_must_wait(clock: Clock, kind: str, limit: tuple) -> None:
    throttle, key, other = Throttle(clock), [Key(kind, "x")], [Key(kind, "y")]
    burst, pause = limit
    for _ in range(burst - 1):
        assert throttle.failed(key) == []
    assert throttle.wait(key) == 0
    assert throttle.failed(key) == key
    assert throttle.wait(key) == pause
    assert throttle.wait(other) == 0
    assert throttle.wait([*other, *key]) == pause


def test_time_lets_one_more_through_and_not_two(clock: Clock) -> None:
    throttle, key = Throttle(clock), [Key("user", "x")]
    for _ in range(PER_USER.burst):
        throttle.failed(key)
    clock.now += PER_USER.pause
    assert throttle.wait(key) == 0
    throttle.failed(key)
    assert throttle.wait(key) == PER_USER.pause


def test_a_long_rest_forgets_all(clock: Clock) -> None:
    throttle, key = Throttle(clock), [Key("user", "x")]
    for _ in range(PER_USER.burst):
        throttle.failed(key)
    clock.now += 1e6
    assert [throttle.failed(key) for _ in range(PER_USER.burst)] == [[]] * 9 + [key]


def test_memory_is_bounded_and_those_that_go_on_are_kept(clock: Clock) -> None:
    throttle, busy = Throttle(clock, most=50), [Key("peer", "busy")]
    for number in range(1000):
        throttle.failed([Key("user", str(number)), *busy])
    assert len(throttle._levels) == 50
    assert throttle.wait(busy) > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_a_network_of_ipv6_is_one_peer(one: str, other: str, same: bool) -> None:
    keys: Callable[[str], Key] = peer_key
    assert (keys(one) == keys(other)) is same
