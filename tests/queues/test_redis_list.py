"""What a list in Redis gives and takes once, also when Redis did it and its reply was lost."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import redis_link, redis_list, redis_wake_ups
from pyspider_zk.queues.codec import pack
from pyspider_zk.queues.names import wake_ups_key
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_list import _PUSH, BATCH, KEPT, LATE, MOST, RedisList
from pyspider_zk.queues.redis_typed_keys import TypedKeys
from tests.queues.conftest import Fate, FatefulKeys
from tests.support.relay import Relay
from tests.support.waiting import eventually

pytestmark = pytest.mark.redis

NAME = "fetcher2processor"
LONG = 60.0  # seconds that no test waits

Make = Callable[[], RedisList]
Answer = TypeVar("Answer")


@pytest.fixture
def relay(redis_server: RedisServer) -> Iterator[Relay]:
    with Relay(redis_server.port) as relay:
        yield relay


@pytest.fixture
def make(redis_url: str, relay: Relay) -> Iterator[Make]:
    """Give what makes a list of one more process, behind the relay."""
    links: list[RedisLink] = []

    def make() -> RedisList:
        database = redis_url.rpartition("/")[2]
        links.append(RedisLink(f"redis://127.0.0.1:{relay.port}/{database}", retries=1))
        return RedisList(TypedKeys(links[-1]))

    yield make
    for link in links:
        link.close()


def caller_of(client: redis.Redis) -> str:
    (key,) = {key.decode() for key in client.scan_iter(f"{NAME}:*")} - {wake_ups_key(NAME)}
    return key


def push_late(client: redis.Redis, numbers: Iterable[int], messages: Sequence[bytes]) -> None:
    """Let a call arrive that has been on its way for long."""
    keys = NAME, caller_of(client), wake_ups_key(NAME)
    client.eval(_PUSH, 3, *keys, KEPT, 1, 0, pack(list(numbers)), pack([]), *messages)


def test_a_message_that_was_put_without_an_answer_is_put_once(
    make: Make, relay: Relay, client: redis.Redis
) -> None:
    ours = make()
    ours.rpush(NAME, b"one")

    with relay.losing_replies(), pytest.raises(Unavailable):
        ours.rpush(NAME, b"two")
    assert client.llen(NAME) == 2  # Redis did it

    assert [ours.rpush(NAME, b"three"), ours.rpush(NAME, b"two")] == [3, 3]
    assert client.lrange(NAME, 0, -1) == [b"one", b"two", b"three"]


def test_a_message_that_never_arrived_is_put(make: Make, relay: Relay, client: redis.Redis) -> None:
    ours = make()
    with relay.cut(), pytest.raises(Unavailable):
        ours.rpush(NAME, b"one")

    ours.rpush(NAME, b"one")

    assert b"one" in client.lrange(NAME, 0, -1)


def test_equal_messages_that_were_answered_are_two(make: Make, client: redis.Redis) -> None:
    ours = make()

    ours.rpush(NAME, b"one")
    ours.rpush(NAME, b"one")

    assert client.llen(NAME) == 2


def test_a_call_that_arrives_late_puts_nothing(make: Make, client: redis.Redis) -> None:
    ours = make()
    ours.rpush(NAME, b"one")
    ours.rpush(NAME, b"two")

    push_late(client, [1], [b"one"])

    assert client.lrange(NAME, 0, -1) == [b"one", b"two"]


def test_a_large_call_that_arrives_after_another_one_puts_nothing(
    make: Make, client: redis.Redis
) -> None:
    ours = make()
    first, second = ([f"{name}{n}".encode() for n in range(BATCH)] for name in "ab")
    ours.push(NAME, first)
    ours.push(NAME, second)

    push_late(client, range(1, BATCH + 1), first)

    assert client.lrange(NAME, 0, -1) == [*first, *second]


def test_messages_of_one_call_come_in_order_and_equal_ones_are_two(
    make: Make, client: redis.Redis
) -> None:
    assert make().push(NAME, [b"one", b"two", b"one"]) == (3, 3)
    assert client.lrange(NAME, 0, -1) == [b"one", b"two", b"one"]


def test_a_call_fills_a_list_to_its_limit(make: Make, client: redis.Redis) -> None:
    ours = make()
    client.rpush(NAME, b"other")

    assert ours.push(NAME, [b"one", b"two", b"three"], 3) == (2, 3)
    assert ours.push(NAME, [b"three"], 3) == (0, 3)
    assert client.lrange(NAME, 0, -1) == [b"other", b"one", b"two"]
    assert ours.push(NAME, [b"three"], 4) == (1, 4)


def test_messages_of_a_call_without_a_reply_are_put_once_however_they_come_again(
    make: Make, relay: Relay, client: redis.Redis
) -> None:
    ours = make()
    ours.rpush(NAME, b"zero")
    with relay.losing_replies(), pytest.raises(Unavailable):
        ours.push(NAME, [b"one", b"two"])

    ours.rpush(NAME, b"two")
    ours.push(NAME, [b"one", b"three"])

    assert client.lrange(NAME, 0, -1) == [b"zero", b"one", b"two", b"three"]


def test_messages_that_redis_may_have_are_put_once_though_it_was_full_meanwhile(
    make: Make, relay: Relay, client: redis.Redis
) -> None:
    ours = make()
    ours.rpush(NAME, b"zero")
    with relay.losing_replies(), pytest.raises(Unavailable):
        ours.push(NAME, [b"one", b"two"])
    assert client.llen(NAME) == 3  # Redis did it

    assert ours.push(NAME, [b"older", b"one", b"two"], 3) == (0, 3)
    ours.push(NAME, [b"older", b"one", b"two"])

    assert client.lrange(NAME, 0, -1) == [b"zero", b"one", b"two", b"older"]


CALLS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), min_size=1, unique=True),
        st.integers(0, 8),
        st.sampled_from(Fate),
    ),
    max_size=12,
)


@given(CALLS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_each_message_is_put_as_often_as_its_call_was_answered(
    fateful: FatefulKeys,
    client: redis.Redis,
    calls: Sequence[tuple[Sequence[bytes], int, Fate]],
) -> None:
    client.flushdb()
    ours = RedisList(fateful)
    answered: Counter[bytes] = Counter()
    unanswered: set[bytes] = set()

    for messages, limit, fate in calls:
        fateful.fate = fate
        try:
            pushed, _ = ours.push(NAME, messages, limit)
        except Unavailable:
            unanswered.update(messages)
            continue
        answered.update(messages[:pushed])
        unanswered.difference_update(messages[:pushed])
    for each in unanswered:
        ours.rpush(NAME, each)
        answered[each] += 1

    assert Counter(client.lrange(NAME, 0, -1)) == answered


def test_a_call_that_a_signal_interrupts_may_come_again(
    fateful: FatefulKeys, client: redis.Redis
) -> None:
    ours = RedisList(fateful)
    fateful.fate, fateful.error = Fate.LOST, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ours.push(NAME, [b"one", b"two"])

    ours.push(NAME, [b"one", b"two"])

    assert client.lrange(NAME, 0, -1) == [b"one", b"two"]


def test_messages_are_digested_only_if_a_call_got_no_reply(
    fateful: FatefulKeys, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[bytes] = []

    def digest(raw: bytes, digest_size: int) -> Any:
        digested.append(raw)
        return blake2b(raw, digest_size=digest_size)

    blake2b = redis_list.blake2b
    monkeypatch.setattr(redis_list, "blake2b", digest)
    ours = RedisList(fateful)
    ours.push(NAME, [b"one", b"two", b"three"], 2)
    ours.push(NAME, [b"three"], 2)
    ours.rpush(NAME, b"three")
    assert digested == []

    fateful.fate = Fate.LOST
    with pytest.raises(Unavailable):
        ours.push(NAME, [b"four", b"five"])
    ours.push(NAME, [b"five", b"four"])
    assert sorted(set(digested)) == [b"five", b"four"]

    digested.clear()
    ours.push(NAME, [b"four", b"five"])
    assert digested == []
    assert client.llen(NAME) == 7


def test_so_many_messages_of_calls_without_a_reply_are_recognized(
    fateful: FatefulKeys, client: redis.Redis
) -> None:
    ours = RedisList(fateful)
    messages = [b"%d" % number for number in range(MOST + BATCH)]
    calls = [messages[first : first + BATCH] for first in range(0, len(messages), BATCH)]
    for each in calls:
        fateful.fate = Fate.LOST
        with suppress(Unavailable):
            ours.push(NAME, each)

    for each in reversed(calls):
        ours.push(NAME, each)

    assert client.lrange(NAME, 0, -1) == [*messages, *calls[0]]


def test_redis_remembers_so_many_messages_of_a_process_and_no_more(
    make: Make, client: redis.Redis
) -> None:
    ours = make()

    for _ in range(3 * LATE):
        ours.rpush(NAME, b"one")

    assert client.hlen(caller_of(client)) == LATE


def test_the_first_message_of_an_empty_list_wakes_whoever_waits(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_wake_ups, "LONGEST_WAIT", LONG)
    monkeypatch.setattr(redis_link, "ANSWER_TIMEOUT", 2 * LONG)
    waiting, pushing = (RedisList(TypedKeys(RedisLink(own_redis.url))) for _ in range(2))
    waiting.wait(NAME, 0.001)
    thread = threading.Thread(target=waiting.wait, args=(NAME, LONG))
    thread.start()
    with redis.Redis.from_url(own_redis.url) as client:
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "one that waits")
    pushing.rpush(NAME, b"one")
    thread.join(LONG / 2)

    assert not thread.is_alive()
    assert client.lpop(NAME) == b"one"


def test_a_list_that_was_pushed_to_is_not_waited_for(make: Make, client: redis.Redis) -> None:
    waiting, pushing = make(), make()
    for _ in range(2):
        pushing.rpush(NAME, b"one")
    assert client.xlen(wake_ups_key(NAME)) == 1, "the second found somebody's work there already"
    assert (client.lpop(NAME), client.lpop(NAME)) == (b"one", b"one")
    pushing.rpush(NAME, b"two")

    assert client.xlen(wake_ups_key(NAME)) == 2
    waiting.wait(NAME, 0.001)
    assert client.lpop(NAME) == b"two"
