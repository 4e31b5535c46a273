"""What is taken from a list in Redis is there until it is done, whoever dies, whatever is lost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import caps
from pyspider_zk.queues.codec import pack
from pyspider_zk.queues.names import (
    WORK_QUEUES,
    deaths_key,
    taken_key,
    takers_key,
    wake_ups_key,
)
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_taken import (
    _TAKE,
    CALL,
    KEPT,
    RawMessage,
    RedisTaken,
    RedisWorkQueues,
)
from pyspider_zk.queues.redis_typed_keys import TypedKeys
from tests.queues.conftest import Fate, FatefulKeys

pytestmark = pytest.mark.redis

NAME = "fetcher2processor"
OURS, OTHERS = "ours", "others"

TASKS, PAGES, _ = WORK_QUEUES
NO_TASK = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "not whole": b"\x81\xa1a",
    "a list": b"\x91\xc0",
    "a list as a key": b"\x81\x91\x01\x02",
    "a mapping as a key": b"\x81\x80\x02",
    "no UTF-8": b"\x81\xa1\xff\x02",
    "a time of no length": b"\xc7\x00\xff",
    "a time beyond all years": b"\xc7\x0c\xff\x00\x00\x00\x00\x7f" + b"\xff" * 7,
    "too deep": b"\x91" * 5000,
    "too large": b"\xdd\xff\xff\xff\xff",
}

Make = Callable[..., RedisTaken]


@pytest.fixture
def make(fateful: FatefulKeys) -> Make:
    return lambda taker=OURS: RedisTaken(fateful, NAME, taker)


@pytest.fixture
def takers(fateful: FatefulKeys) -> RedisWorkQueues:
    return RedisWorkQueues(fateful)


def bodies(found: Sequence[RawMessage]) -> list[bytes]:
    return [each.raw for each in found]


def take_late(client: redis.Redis, number: int, most: int = 1) -> Any:
    """Let a call arrive that has been on its way for long."""
    keys = NAME, taken_key(NAME, OURS), takers_key(NAME), deaths_key(NAME)
    return client.eval(_TAKE, 4, *keys, OURS, number, most, CALL, caps.PAGE, KEPT, pack([]))


def test_what_is_taken_stays_until_it_is_done(make: Make, client: redis.Redis) -> None:
    ours = make()
    client.rpush(NAME, b"one", b"two", b"three")

    first, second = ours.take(2, [])
    assert (first.raw, second.raw) == (b"one", b"two")
    assert client.lrange(NAME, 0, -1) == [b"three"]
    assert set(client.hvals(taken_key(NAME, OURS))) >= {b"one", b"two"}

    assert bodies(ours.take(5, [first.number])) == [b"three"]
    assert b"one" not in client.hvals(taken_key(NAME, OURS))


def test_what_waits_is_counted_past_a_key_of_another_type(
    make: Make, client: redis.Redis, takers: RedisWorkQueues
) -> None:
    client.rpush(NAME, b"one", b"two")
    make().take(1, [])
    other = next(queue for queue in WORK_QUEUES if queue != NAME)
    client.set(other, "x")
    assert takers.lengths() == {**dict.fromkeys(WORK_QUEUES, 0), NAME: 1}


def test_what_is_given_back_comes_first_and_in_order(
    make: Make, client: redis.Redis, takers: RedisWorkQueues
) -> None:
    ours, others = make(), make(OTHERS)
    client.rpush(NAME, *(b"%d" % n for n in range(13)))
    (zero, *_) = ours.take(12, [])
    assert takers.takers(NAME) == {OURS}

    ours.take(0, [zero.number])
    assert ours.give_back(died=False) == 11

    assert bodies(others.take(20, [])) == [b"%d" % n for n in range(1, 13)]
    assert takers.takers(NAME) == {OTHERS}
    assert ours.take(1, []) == []
    assert client.exists(deaths_key(NAME)) == 0, "nobody has died"


def test_what_a_dead_one_had_says_how_many_died_with_it(
    make: Make, client: redis.Redis, takers: RedisWorkQueues
) -> None:
    client.rpush(NAME, b"one", b"two")
    for deaths in range(3):
        (found,) = make(str(deaths)).take(1, [])
        assert (found.raw, found.deaths) == (b"one", deaths)
        assert takers.give_back(NAME, str(deaths)) == 1
    ours = make()
    (one,) = ours.take(2, [])
    assert one.deaths == 3
    (two,) = ours.take(2, [one.number])
    assert two.deaths == 0

    ours.take(0, [two.number])
    assert client.exists(deaths_key(NAME)) == 0, "it is done, and a page like it is another one"


def test_what_takers_died_with_is_taken_alone_so_that_no_other_is_blamed(
    make: Make, client: redis.Redis, takers: RedisWorkQueues
) -> None:
    client.rpush(NAME, b"one", b"two", b"three")
    make().take(2, [])
    takers.give_back(NAME, OURS)
    client.lpush(NAME, b"new")
    ours = make("another")
    assert [bodies(ours.take(9, [])) for _ in range(4)] == [
        [b"new"],
        [b"one"],
        [b"two"],
        [b"three"],
    ]


def test_a_message_whose_delivery_was_lost_comes_with_the_next_call(
    make: Make, fateful: FatefulKeys, client: redis.Redis
) -> None:
    ours, others = make(), make(OTHERS)
    client.rpush(NAME, b"one", b"two", b"three")
    assert bodies(ours.take(1, [])) == [b"one"]

    fateful.fate = Fate.LOST
    with pytest.raises(Unavailable):
        ours.take(1, [])

    assert bodies(others.take(1, [])) == [b"three"]
    assert bodies(ours.take(1, [])) == [b"two"]
    assert ours.take(1, []) == []


def test_the_next_process_of_a_name_gets_what_the_one_before_had(
    make: Make, client: redis.Redis
) -> None:
    client.rpush(NAME, b"one", b"two", b"three")
    (one, _) = make().take(2, [])
    make().take(0, [one.number])

    after = make()
    (two,) = after.take(0, [])
    assert two.raw == b"two"
    assert bodies(after.take(1, [two.number])) == [b"three"]


def test_the_next_process_of_a_name_asks_for_no_more_than_the_one_before_had(
    make: Make, client: redis.Redis
) -> None:
    client.rpush(NAME, *(b"%d" % n for n in range(12)))
    make().take(12, [])
    client.hset(taken_key(NAME, OURS), "last", 100_000)
    client.config_resetstat()

    assert bodies(make().take(0, [])) == [b"%d" % n for n in range(12)]
    assert client.info("commandstats")["cmdstat_hget"]["calls"] <= 13


def test_a_call_that_arrives_late_takes_nothing(make: Make, client: redis.Redis) -> None:
    ours = make()
    client.rpush(NAME, b"one", b"two", b"three")
    ours.take(1, [])
    (two,) = ours.take(1, [1])

    assert take_late(client, 1)[2] == [b"two"]  # nobody waits for it
    assert client.lrange(NAME, 0, -1) == [b"three"]
    assert bodies(ours.take(1, [two.number])) == [b"three"]


@pytest.mark.parametrize("found", [[], [b"too large"]])
def test_what_a_call_takes_after_its_repetition_was_answered_is_found(
    fateful: FatefulKeys,
    make: Make,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    found: Sequence[bytes],
) -> None:
    """Both are in Redis's sockets after it hung, and it reads one or the other first."""
    monkeypatch.setattr(caps, "PAGE", len(b"one"))
    ours = make()
    if found:
        client.rpush(NAME, *found)
    fateful.fate = Fate.UNSENT
    with pytest.raises(Unavailable):
        ours.take(1, [])
    assert ours.take(1, []) == []
    client.rpush(NAME, b"one")

    take_late(client, 1)
    assert bodies(ours.take(1, [])) == [b"one"]
    assert ours.take(1, []) == []


def test_a_call_takes_so_many_bytes_and_one_message_more(make: Make, client: redis.Redis) -> None:
    half = b"x" * (CALL // 2)
    client.rpush(NAME, half, half, b"one", b"two")
    assert bodies(make().take(10, [])) == [half, half]


def test_a_message_that_is_too_large_is_dropped_by_the_server(
    make: Make,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(caps, "PAGE", len(b"one"))
    client.rpush(NAME, b"four", b"one")
    assert bodies(make().take(1, [])) == [b"one"]
    assert "4 bytes, the limit is 3" in caplog.text


def test_a_look_into_an_empty_list_is_no_write(make: Make, client: redis.Redis) -> None:
    ours = make()
    client.rpush(NAME, b"one")
    (one,) = ours.take(1, [])
    ours.take(1, [one.number])
    before = client.info("persistence")["rdb_changes_since_last_save"]

    assert [ours.take(1, []), make(OTHERS).take(1, [])] == [[], []]

    assert client.info("persistence")["rdb_changes_since_last_save"] == before


def test_redis_forgets_who_has_nothing_and_not_who_has_something(
    make: Make, client: redis.Redis
) -> None:
    ours = make()
    client.rpush(NAME, b"one", b"two")
    (one,) = ours.take(1, [])
    ours.take(0, [one.number])
    assert 0 < client.ttl(taken_key(NAME, OURS)) <= KEPT

    ours.take(1, [])
    assert client.ttl(taken_key(NAME, OURS)) == -1


def test_a_full_memory_lets_messages_out(own_redis: RedisServer) -> None:
    ours = RedisTaken(TypedKeys(RedisLink(own_redis.url)), NAME, OURS)
    with redis.Redis.from_url(own_redis.url) as client:
        client.rpush(NAME, b"one")
        client.config_set("maxmemory", 1)
        taken = [ours.take(1, []), ours.take(1, [1])]
        client.config_set("maxmemory", 0)

    assert [bodies(each) for each in taken] == [[b"one"], []]


def test_what_comes_back_to_an_empty_list_wakes_whoever_waits(
    make: Make, client: redis.Redis
) -> None:
    client.rpush(NAME, b"one", b"two")
    ours = make()
    ours.take(1, [])
    ours.give_back(died=False)
    assert client.xlen(wake_ups_key(NAME)) == 0
    ours.take(2, [])
    ours.give_back(died=False)
    assert client.xlen(wake_ups_key(NAME)) == 1


@pytest.mark.parametrize("key", [taken_key(NAME, OURS), takers_key(NAME), deaths_key(NAME)])
def test_a_key_of_another_type_is_moved_out_of_the_way(
    make: Make, client: redis.Redis, takers: RedisWorkQueues, key: str
) -> None:
    client.set(key, "foreign")
    client.rpush(NAME, b"one")
    assert bodies(make().take(1, [])) == [b"one"]
    assert takers.give_back(NAME, OURS) == 1


def beginning(raw: bytes, queue: str) -> bytes:
    """Return what a message of a queue begins with; one of a page is a list of task and page."""
    return b"\x92" + raw if queue == PAGES else raw


@pytest.mark.parametrize("queue", [TASKS, PAGES])
@pytest.mark.parametrize("raw", NO_TASK.values(), ids=NO_TASK)
def test_what_is_no_task_hides_no_task_under_way(
    client: redis.Redis, fateful: FatefulKeys, takers: RedisWorkQueues, queue: str, raw: bytes
) -> None:
    """A takeover asks for them: if it failed, so would each round of whoever takes over."""
    for half in (["a"], ["b"]):
        own = [pack({"taskid": taskid, "project": "p"}) for taskid in half]
        client.rpush(queue, *(beginning(each, queue) for each in (raw, *own)))
        if half == ["a"]:
            RedisTaken(fateful, queue, OURS).take(2, [])

    assert sorted(task["taskid"] for task in takers.under_way()) == ["a", "b"]


class Act(Enum):
    """What happens next to one of two takers."""

    TAKE = "it takes two"
    FINISH = "it is done with all that it had, and takes one"
    DIE = "it is killed, and another process has its name after what it had went back"


STORY = st.lists(
    st.tuples(st.sampled_from([OURS, OTHERS]), st.sampled_from(Act), st.sampled_from(Fate)),
    max_size=25,
)


@given(STORY)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_is_lost_and_nobody_has_what_another_has(
    fateful: FatefulKeys, client: redis.Redis, story: Sequence[tuple[str, Act, Fate]]
) -> None:
    client.flushdb()
    messages = {b"%d" % number for number in range(20)}
    client.rpush(NAME, *sorted(messages))
    has: dict[str, dict[int, bytes]] = {OURS: {}, OTHERS: {}}
    parties = {name: RedisTaken(fateful, NAME, name) for name in has}
    done: set[bytes] = set()

    for name, act, fate in story:
        fateful.fate = fate
        if act is Act.DIE:
            with suppress(Unavailable):
                RedisWorkQueues(fateful).give_back(NAME, name)
            parties[name], has[name] = RedisTaken(fateful, NAME, name), {}
            continue
        numbers = list(has[name]) if act is Act.FINISH else []
        done.update(has[name][number] for number in numbers)
        with suppress(Unavailable):
            found = parties[name].take(1 if numbers else 2, numbers)
            for number in numbers:
                del has[name][number]
            has[name].update((each.number, each.raw) for each in found)
        held = [raw for its in has.values() for raw in its.values() if raw not in done]
        assert len(held) == len(set(held))
    for name in has:
        RedisWorkQueues(fateful).give_back(NAME, name)
    left = client.lrange(NAME, 0, -1)

    assert done.union(left) == messages
    assert len(left) == len(set(left))
