"""pyspider's own queues bear a message queue that goes away."""

import logging
import queue
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
import umsgpack  # type: ignore[import-untyped]
from pyspider.message_queue import connect_message_queue

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import caps, redis_link
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.consumer import Consumer
from pyspider_zk.queues.resilient import ResilientQueue, SendBuffer
from tests.conftest import Faults
from tests.queues.away import AwayQueue
from tests.queues.conftest import RedisBackend
from tests.support.stand_ins import running

SOON = 0.01  # seconds
LONG = 60.0  # seconds that no test waits
LOGGER = logging.getLogger("processor")


def back_off_of(pause: float = SOON, grace: float = 0.0) -> BackOff:
    return BackOff(LOGGER, "work waits", grace, pause)


def patient(inner: Any, pause: float = SOON) -> ResilientQueue:
    return ResilientQueue(inner, back_off_of(pause))


def consumer(inner: Any, back_off: BackOff | None = None) -> Consumer:
    return Consumer(inner, back_off or back_off_of(), lambda _: None, LOGGER, "ours")


def send(queue_: ResilientQueue, body: Any) -> None:
    unsent = SendBuffer(queue_)
    unsent.put(body)
    unsent.flush()


def taken(inner: Any) -> list[Any]:
    return [each.body for each in consumer(inner).take(10)]


# -- any queue -------------------------------------------------------------------------------


def test_a_queue_that_is_away_looks_empty_and_full() -> None:
    waiting = patient(AwayQueue(away=True))
    with pytest.raises(queue.Empty):
        consumer(AwayQueue(away=True)).get_nowait()
    with pytest.raises(queue.Full):
        waiting.put_nowait("body")
    assert waiting.full()


def test_a_queue_that_answers_is_what_it_is() -> None:
    inner = AwayQueue(maxsize=2)
    waiting, reading = patient(inner), consumer(inner)
    waiting.put_nowait("a")
    waiting.put_nowait("b")
    assert (waiting.full(), inner.qsize()) == (True, 2)
    with pytest.raises(queue.Full):
        waiting.put_nowait("c")
    assert [reading.get(), reading.get(timeout=LONG)] == ["a", "b"]
    with pytest.raises(queue.Empty):
        reading.get(block=False)
    with pytest.raises(queue.Empty):
        reading.get(timeout=SOON)


def test_nobody_asks_while_it_rests() -> None:
    inner = AwayQueue(away=True)
    back_off = back_off_of(pause=LONG)
    waiting, reading = ResilientQueue(inner, back_off), consumer(inner, back_off)
    for _ in range(5):
        assert waiting.full()
        with pytest.raises(queue.Empty):
            reading.get(timeout=SOON)
    assert inner.asked == 1


def test_waiting_is_no_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    back_off = back_off_of(pause=LONG)
    rests: list[float] = []
    monkeypatch.setattr(back_off, "rest", rests.append)
    # when
    with pytest.raises(queue.Empty):
        consumer(AwayQueue(away=True), back_off).get(timeout=SOON)
    # then
    assert rests


@pytest.mark.parametrize("held", [[], ["a"]], ids=["empty", "full"])
def test_an_empty_or_full_queue_is_a_sign_of_life(
    held: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    # given
    caplog.set_level(logging.INFO)
    inner = AwayQueue(maxsize=1)
    back_off = back_off_of(pause=1e-9)
    for body in held:
        inner.put(body)
    waiting = ResilientQueue(inner, back_off)
    ask = partial(waiting.put_nowait, "b") if held else consumer(inner, back_off).get_nowait
    # when
    for inner.away in (True, False):
        with pytest.raises((queue.Empty, queue.Full)):
            ask()
    # then
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_two_queues_of_one_process_find_out_once() -> None:
    inner, other = AwayQueue(away=True), AwayQueue(away=True)
    back_off = back_off_of(pause=LONG)
    assert ResilientQueue(inner, back_off).full()
    assert ResilientQueue(other, back_off).full()
    assert (inner.asked, other.asked) == (1, 0)


def test_to_be_told_of_no_limit_is_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    # given a queue without a limit, which need not ask to know that it is not full
    class Endless(AwayQueue):
        def full(self) -> bool:
            return False

    caplog.set_level(logging.INFO)
    inner, back_off = Endless(away=True), back_off_of(pause=0.001)
    waiting, reading = ResilientQueue(inner, back_off), consumer(inner, back_off)
    # when
    for _ in range(20):
        waiting.full()
        with pytest.raises(queue.Empty):
            reading.get(timeout=SOON)
    # then
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("wait", [{}, {"timeout": LONG}], ids=["endlessly", "for a time"])
def test_get_waits_for_one_that_is_away(wait: dict[str, Any]) -> None:
    inner = AwayQueue()
    inner.put("body")
    inner.away = True
    got: list[Any] = []
    reading = consumer(inner)
    with running(lambda: got.append(reading.get(**wait))):
        assert inner.refused.wait(LONG)
        inner.refused.clear()
        assert inner.refused.wait(LONG)
        inner.away = False
    assert got == ["body"]


def test_who_sends_waits_for_room() -> None:
    inner = AwayQueue(maxsize=1)
    waiting = patient(inner)
    waiting.put_nowait("a")
    with running(send, waiting, "b"):
        assert inner.get(timeout=LONG) == "a"
    assert taken(inner) == ["b"]


@pytest.mark.parametrize(
    "inner", [AwayQueue(away=True), AwayQueue(maxsize=1)], ids=["away", "full"]
)
def test_the_end_of_a_process_ends_its_waiting(inner: AwayQueue) -> None:
    # given
    back_off = back_off_of()
    waiting = ResilientQueue(inner, back_off)
    if not inner.away:
        inner.put("a")
    # when
    with running(send, waiting, "b", raises=Unavailable):
        back_off.close()
    # then nobody waits any more
    inner.away = True
    with pytest.raises(queue.Empty):
        consumer(inner, back_off).get()


class EncodingQueue(AwayQueue):
    """A queue that encodes when it puts, as pyspider's for AMQP does."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        umsgpack.packb(item)
        super().put(item, block, timeout)


def test_a_message_that_cannot_be_encoded_keeps_no_other_from_being_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = EncodingQueue(maxsize=2)
    first, bad, *others = ({"project": "p", "taskid": each} for each in "abcd")
    messages = [first, {**bad, "fetch": {"secret": 2**70}}, {1, 2}, *others]
    assert patient(inner).put_packed(messages) == 4, "the last one finds no room"
    assert taken(inner) == [first, others[0]]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "p:b" in caplog.text
    assert "secret" not in caplog.text


def test_messages_for_a_queue_that_is_away_come_again() -> None:
    inner = EncodingQueue(away=True)
    waiting = patient(inner)
    assert waiting.put_packed(["a", "b"]) == 0
    assert inner.asked == 1
    inner.away = False
    assert taken(inner) == []


# -- what is kept ------------------------------------------------------------------------------


def test_what_finds_no_room_is_kept_and_sent_in_order() -> None:
    inner = AwayQueue(maxsize=2)
    backlog = SendBuffer(patient(inner))
    for body in "abcd":
        backlog.put(body)
    assert backlog.full()
    assert backlog.kept == 2
    assert taken(inner) == ["a", "b"]
    backlog.put("e")
    assert not backlog.send()
    assert taken(inner) == ["c", "d"]
    assert not backlog.full()
    assert taken(inner) == ["e"]
    assert backlog.kept == 0


def test_what_is_kept_while_it_is_away_is_flushed() -> None:
    inner = AwayQueue(away=True)
    backlog = SendBuffer(patient(inner))
    for body in "abc":
        backlog.put(body)
    with pytest.raises(queue.Full):
        backlog.flush(SOON)
    with running(backlog.flush):
        inner.refused.clear()
        assert inner.refused.wait(LONG)
        inner.away = False
    assert taken(inner) == ["a", "b", "c"]


def test_flushing_nothing_asks_nobody() -> None:
    inner = AwayQueue(away=True)
    SendBuffer(patient(inner)).flush()
    assert inner.asked == 0


def test_what_can_never_be_sent_is_refused_at_once() -> None:
    backlog = SendBuffer(patient(AwayQueue(away=True)))
    with pytest.raises(TypeError):
        backlog.put({"a set": {1}})
    assert (backlog.kept, backlog.kept_bytes) == (0, 0)


# -- pyspider's queue in Redis -------------------------------------------------------------------

NAME = "fetcher2processor"
PASSWORD = "hun@ter/2"  # noqa: S105 - no secret


@pytest.fixture
def stock(redis_url: str) -> Iterator[Any]:
    made = connect_message_queue(NAME, redis_url, maxsize=2)
    yield made
    made.redis.close()


@pytest.mark.redis
def test_messages_pass_between_ours_and_pyspiders(stock: Any) -> None:
    waiting = patient(stock)
    waiting.put_nowait(("task", {"content": b"\x00\xff"}))
    assert stock.get_nowait() == ["task", {"content": b"\x00\xff"}]
    stock.put("back")
    assert consumer(stock).get() == "back"
    waiting.put_nowait("a"), waiting.put_nowait("b")
    assert (waiting.full(), stock.qsize()) == (True, 2)


@pytest.mark.redis
def test_a_message_that_cannot_be_decoded_stops_nobody(
    stock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stock.redis.rpush(NAME, b"\xc1")
    stock.put("good")
    assert consumer(stock).get(timeout=LONG) == "good"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.redis
def test_a_connection_that_broke_is_no_outage(stock: Any, caplog: pytest.LogCaptureFixture) -> None:
    waiting = patient(stock)
    waiting.put_nowait("a")
    stock.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    waiting.put_nowait("b")
    assert taken(stock) == ["a", "b"]
    assert caplog.records == []


@pytest.mark.redis
def test_a_redis_that_hangs_is_away(
    own_redis: RedisServer, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = patient(connect_message_queue(NAME, own_redis.url))
    waiting.put_nowait("body")
    faults.suspend(own_redis.pid)
    with pytest.raises(queue.Full):
        waiting.put_nowait("body")
    faults.resume(own_redis.pid)
    assert "Time" in caplog.text or "time" in caplog.text


@pytest.mark.redis
def test_a_redis_that_was_restarted_keeps_all_and_gets_all(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    caplog.set_level(logging.INFO)
    stock, back_off = connect_message_queue(NAME, own_redis.url), back_off_of()
    waiting = ResilientQueue(stock, back_off)
    waiting.put_nowait("before")
    own_redis.stop()
    assert consumer(stock, back_off).take(1) == []
    # when
    with running(send, waiting, "during"):
        own_redis.start()
    # then
    assert taken(stock) == ["before", "during"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


@pytest.mark.redis
def test_a_password_is_taken_over_and_not_told(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("requirepass", PASSWORD)
    stock = connect_message_queue(NAME, own_redis.url)
    stock.redis = redis.Redis(port=own_redis.port, password=PASSWORD)
    # when
    waiting = patient(stock)
    waiting.put_nowait("body")
    # then
    assert consumer(stock).get() == "body"
    own_redis.stop()
    with pytest.raises(queue.Full):
        waiting.put_nowait("body")
    assert str(own_redis.port) in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.redis
def test_ours_leaves_pyspiders_object_as_it_is(stock: Any) -> None:
    client = stock.redis
    patient(stock)
    assert stock.redis is client


@pytest.mark.redis
def test_a_former_master_is_left_for_whoever_answers_at_its_name(
    own_backend: RedisBackend,
) -> None:
    # given
    link = redis_link.RedisLink(own_backend.url)
    with link.client() as client:
        before = client.client_id()
    own_backend.client.replicaof("127.0.0.1", "1")
    # when
    with pytest.raises(Unavailable, match="read only"), link.client() as client:
        client.set("a", "b")
    # then it asks over a new connection
    with link.client() as client:
        assert client.client_id() != before
    link.close()


@pytest.mark.redis
@pytest.mark.parametrize(
    ("sizes", "calls"),
    [
        ([1] * 401, 3),
        ([2**18] * 9, 3),
        ([1, 2**21, 2**20, 1], 4),
        ([], 0),
    ],
    ids=["many", "large", "larger than a call", "none"],
)
def test_a_call_has_200_messages_and_1_mib_at_most(
    sizes: list[int], calls: int, own_redis: RedisServer
) -> None:
    messages = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    stock = connect_message_queue(NAME, own_redis.url)
    assert patient(stock).put_packed(messages) == len(messages)
    assert stock.redis.lrange(NAME, 0, -1) == messages
    made = stock.redis.info("commandstats").get("cmdstat_eval", {"calls": 0})
    assert made["calls"] == calls


# -- junk ------------------------------------------------------------------------------------


@pytest.fixture
def pages(redis_backend: RedisBackend) -> Consumer:
    """Give the consumer of a queue between components, in a real Redis."""
    return consumer(connect_message_queue(NAME, redis_backend.url))


@pytest.mark.redis
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        b"\xdb\xff",
        b"\x91" * 100_000,
        b"\x81" * 100_000,
        b"\xd9\x02\xc3\x28",
        b"\xc7\x0c\xff\0\0\0\0\x7f" + b"\xff" * 7,
        b"\x81\xdd\xff\xff\xff\xff",
    ],
    ids=["empty", "unused", "short", "lists", "mappings", "text", "a time", "a key"],
)
def test_what_is_no_message_is_dropped_and_the_next_one_taken(
    redis_backend: RedisBackend, pages: Consumer, raw: bytes
) -> None:
    redis_backend.client.rpush(NAME, raw)
    redis_backend.client.rpush(NAME, umsgpack.packb(1))
    assert pages.get_nowait() == 1
    pages.give_back()
    assert pages.get_nowait() == 1, "what was dropped is done"


@pytest.mark.redis
def test_a_key_of_another_type_is_moved_out_of_the_way(
    redis_backend: RedisBackend, pages: Consumer
) -> None:
    redis_backend.client.set(NAME, "x")
    waiting = patient(connect_message_queue(NAME, redis_backend.url))
    waiting.put_nowait(1)
    assert (waiting.full(), pages.get_nowait()) == (False, 1)


@pytest.mark.redis
def test_a_message_that_is_too_large_is_neither_sent_nor_fetched(
    redis_backend: RedisBackend,
    pages: Consumer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(caps, "PAGE", 100)
    redis_backend.client.rpush(NAME, b"x" * 101)
    waiting = patient(connect_message_queue(NAME, redis_backend.url))
    waiting.put_nowait(1)
    with pytest.raises(BadMessage, match="limit is 100"):
        waiting.put_nowait("x" * 101)
    assert pages.get_nowait() == 1
    assert "101 bytes" in caplog.text
