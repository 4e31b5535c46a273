"""What a worker cannot use is passed over, and what it has is there until it is done."""

import itertools
import logging
import queue
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis
from pyspider.message_queue import connect_message_queue

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.consumer import AGAIN, SOON, Consumer
from pyspider_zk.queues.redis_taken import RedisWorkQueues
from tests.queues.away import AwayQueue
from tests.queues.conftest import Fate, FatefulKeys

logger = logging.getLogger(__name__)
NAME = "fetcher2processor"


def back_off() -> BackOff:
    return BackOff(logger, "work waits")


def consumer(inner: Any, name: str = "ours", **options: Any) -> Consumer:
    return Consumer(inner, back_off(), options.pop("check", bool), logger, name, **options)


def test_a_reader_that_fails_for_ever_rests_each_time() -> None:
    rests: list[float] = []

    def fail() -> None:
        raise OSError("the working folder is gone")

    calling = consumer(queue.Queue(), before=fail, sleep=rests.append)

    for _ in range(3):
        with pytest.raises(OSError, match="working folder"):
            calling.get(timeout=0)
    assert rests == [AGAIN] * 3


def test_a_reader_that_finds_nothing_does_not_rest() -> None:
    rests: list[float] = []

    with pytest.raises(queue.Empty):
        consumer(queue.Queue(), sleep=rests.append).get(block=False)
    assert rests == []


class Steps:
    """A clock that says how long each batch took."""

    def __init__(self, *seconds: float) -> None:
        self._ticks = iter([tick for each in seconds for tick in (0.0, each)])

    def __call__(self) -> float:
        return next(self._ticks)


def test_the_sooner_all_is_done_the_more_is_taken_at_once() -> None:
    inner: queue.Queue[int] = queue.Queue()
    for number in range(100):
        inner.put(number)
    left = [100]
    seconds = (SOON / 2,) * 5 + (SOON,) * 6
    ours = consumer(inner, clock=Steps(*seconds), before=lambda: left.append(inner.qsize()))
    while len(left) < 12:
        ours.get()
    taken = [before - after for before, after in itertools.pairwise(left)]
    assert taken == [0, 1, 2, 4, 8, 10, 10, 5, 2, 1, 1]


def test_what_was_taken_and_not_returned_is_not_done() -> None:
    inner: queue.Queue[int] = queue.Queue()
    for number in range(1, 5):
        inner.put(number)
    ours = consumer(inner)
    assert [ours.get(), ours.get()] == [1, 2]  # and 3 was taken with 2
    ours.done()
    ours.settle()
    assert ours.give_back() == 1
    assert list(inner.queue) == [4, 3]
    assert ours.get() == 4


def odd_only(body: int) -> None:
    if body % 2 == 0:
        raise BadMessage("is even")


def test_what_is_of_no_use_is_passed_over_and_done(caplog: pytest.LogCaptureFixture) -> None:
    inner: queue.Queue[int] = queue.Queue()
    for number in range(4):
        inner.put(number)
    ours = consumer(inner, check=odd_only)
    assert [each.body for each in ours.take(4)] == [1, 3]
    assert (ours.passed_over, caplog.text.count("is even")) == (2, 2)
    assert ours.give_back() == 2
    assert list(inner.queue) == [1, 3]


def test_what_is_in_memory_goes_back_as_far_as_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = AwayQueue(maxsize=2)
    inner.put("a"), inner.put("b")
    ours = consumer(inner)
    ours.take(2)
    inner.put("c")
    assert ours.give_back() == 0
    assert list(inner.queue) == ["c", "a"]
    assert "go back later" in caplog.text


# -- in Redis ------------------------------------------------------------------------------------


@pytest.fixture
def put(redis_url: str) -> Callable[..., Any]:
    """Give what puts messages, and returns pyspider's queue."""

    def put(*bodies: Any) -> Any:
        stock = connect_message_queue(NAME, redis_url)
        for body in bodies:
            stock.put(body)
        return stock

    return put


def bodies(found: Sequence[Any]) -> list[Any]:
    return [each.body for each in found]


@pytest.mark.redis
def test_what_is_not_acknowledged_goes_back(put: Callable[..., Any]) -> None:
    stock = put(1, 2, 3)
    ours = consumer(stock)
    one, two = ours.take(2)
    ours.acknowledge(one.number)
    assert ours.give_back() == 1
    assert bodies(consumer(stock, "others").take(9)) == [two.body, 3]


@pytest.mark.redis
def test_all_that_was_taken_is_done_and_told_with_the_next_call(
    put: Callable[..., Any], client: redis.Redis, fateful: FatefulKeys
) -> None:
    stock = put(1, 2, 3, 4, 5)
    ours, takers = consumer(stock), RedisWorkQueues(fateful)
    ours.get(), ours.get(), ours.get()
    ours.done()
    assert bodies(ours.take(1)) == [4]
    assert takers.give_back(NAME, "ours") == 1
    assert client.llen(NAME) == 2


@pytest.mark.redis
def test_what_is_acknowledged_is_told_at_once_if_asked(
    put: Callable[..., Any], fateful: FatefulKeys
) -> None:
    ours = consumer(put(1))
    ours.get()
    ours.done()
    ours.settle()
    assert RedisWorkQueues(fateful).give_back(NAME, "ours") == 0


@pytest.mark.redis
def test_what_comes_with_a_call_that_only_tells_is_not_forgotten(
    put: Callable[..., Any], fateful: FatefulKeys
) -> None:
    ours = consumer(put(1, 2))
    ours._source._keys = fateful  # type: ignore[attr-defined]  # the next call's reply is lost
    (one,) = ours.take(1)
    fateful.fate = Fate.LOST
    ours._back_off = ours._access._back_off = Tireless(logger, "work waits")
    assert ours.take(1) == []
    ours.acknowledge(one.number)
    ours.settle()
    assert bodies(ours.take(1)) == [2]


class Tireless(BackOff):
    """One that asks again at once."""

    def failed(self, error: Unavailable) -> None:
        """Forget it."""


@pytest.mark.redis
def test_a_message_that_several_have_died_with_is_refused_and_done(
    put: Callable[..., Any], fateful: FatefulKeys
) -> None:
    refused: list[Any] = []
    stock, takers = put(1, 2), RedisWorkQueues(fateful)
    for name in ("first", "second"):
        assert bodies(consumer(stock, name, deaths=2).take(1)) == [1]
        takers.give_back(NAME, name)
    ours = consumer(stock, deaths=2, refuse=lambda *told: refused.append(told))
    assert bodies(ours.take(1)) == [2]
    assert refused == [(1, "2 processes have died of it, or with it")]
    assert ours.give_back() == 1


@pytest.mark.redis
def test_a_message_that_cannot_be_refused_now_is_kept(
    put: Callable[..., Any], fateful: FatefulKeys
) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("the slot queues are away")

    stock = put(1)
    consumer(stock, "first").take(1)
    RedisWorkQueues(fateful).give_back(NAME, "first")
    ours = consumer(stock, deaths=1, refuse=refuse)
    with pytest.raises(Unavailable):
        ours.take(1)
    assert ours.give_back() == 1


@pytest.mark.redis
def test_what_a_process_before_it_died_of_counts(put: Callable[..., Any]) -> None:
    stock = put(1)
    assert bodies(consumer(stock, deaths=1).take(1)) == [1]
    after = consumer(stock, deaths=1)
    assert bodies(after.take(0)) == [1]
    after.give_back(died=True)
    assert after.take(1) == []


@pytest.mark.redis
def test_while_redis_is_away_it_stays_where_it_is(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    stock = connect_message_queue(NAME, own_redis.url)
    stock.put(1)
    ours = consumer(stock)
    ours.take(1)
    own_redis.stop()
    assert ours.give_back() == 0
    assert "go back later" in caplog.text
    own_redis.start()
    assert bodies(consumer(stock).take(1)) == [1]
