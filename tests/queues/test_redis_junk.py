"""Whatever a foreign hand leaves in Redis, the queues go on; nothing is deleted, all is told."""

import logging
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Delivery, Message, Queues
from pyspider_zk.queues.names import QueueKind

pytestmark = pytest.mark.redis

NEW, STATUS = QueueKind.NEWTASK, QueueKind.STATUS
HIGHEST = f"{2**64 - 1}-{2**64 - 1}"
STRAY = ["junk", "-1", "7.5", "16384", "9" * 30, b"\xff\xfe", "", " 3", "03", "x" * 10_000]

# Each puts a key of another type where one of ours belongs.
WRONG: dict[str, Callable[[Any, str], Any]] = {
    "text": lambda client, key: client.set(key, "x"),
    "list": lambda client, key: client.rpush(key, "x", "y"),
    "set": lambda client, key: client.sadd(key, "x"),
    "hash": lambda client, key: client.hset(key, "a", "b"),
    "stream": lambda client, key: client.xadd(key, {"a": "b"}),
}


def publish(queues: Queues, *bodies: object, slot: int = 0) -> None:
    queues.slot_queues.publish([Message(NEW, slot, body) for body in bodies])


def bodies(deliveries: list[Delivery]) -> list[Any]:
    return [delivery.body for delivery in deliveries]


def wrong(key: str, but: str) -> list[Any]:
    return [pytest.param(key, kind, id=f"{key}-{kind}") for kind in WRONG if kind != but]


@pytest.fixture
def queues(redis_backend: Any) -> Queues:
    return redis_backend.process()


@pytest.mark.parametrize("name", STRAY)
def test_a_stray_name_among_the_ready_slots_is_taken_out(
    redis_backend: Any, queues: Queues, name: Any, caplog: pytest.LogCaptureFixture
) -> None:
    publish(queues, 1, slot=3)
    redis_backend.client.sadd("newtask_queue:ready", name)
    queues.slot_queues.take(range(8))
    assert bodies(queues.slot_queues.read(NEW, 10)) == [1]
    assert redis_backend.client.smembers("newtask_queue:ready") == {b"3"}
    assert queues.slot_queues.lengths()[NEW] == 1
    assert "newtask_queue:ready" in caplog.text


def test_a_stray_name_does_not_hide_the_backlog(redis_backend: Any, queues: Queues) -> None:
    publish(queues, 1, slot=3)
    redis_backend.client.sadd("newtask_queue:ready", "junk")
    assert list(queues.slot_queues.backlog()) == [(NEW, 3)]


@pytest.mark.parametrize(("key", "kind"), wrong("newtask_queue:3", but="stream"))
def test_a_slot_queue_of_another_type_stops_no_slot(
    redis_backend: Any, queues: Queues, key: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    WRONG[kind](redis_backend.client, key)
    redis_backend.client.sadd("newtask_queue:ready", 3)
    publish(queues, 1, slot=2)
    queues.slot_queues.take(range(8))
    # when
    assert bodies(queues.slot_queues.read(NEW, 10)) == [1]
    publish(queues, 2, slot=3)
    # then
    assert bodies(queues.slot_queues.read(NEW, 10)) == [2]
    assert list(queues.slot_queues.backlog()) == [(NEW, 2), (NEW, 3)]
    (aside, why), *more = queues.slot_queues.unreadable().items()
    assert aside.startswith(f"unreadable:{key}:")
    assert not more
    assert kind.replace("text", "string") in why
    assert f"redis-cli DEL {aside}" in why
    assert caplog.text.count(aside) >= 1


@pytest.mark.parametrize(("key", "kind"), wrong("newtask_queue:3", but="stream"))
def test_packs_wait_for_nothing_of_a_slot_queue_of_another_type(
    redis_backend: Any, queues: Queues, key: str, kind: str
) -> None:
    WRONG[kind](redis_backend.client, key)
    queues.slot_queues.take(range(8))
    publish(queues, 1, slot=2)

    assert list(queues.slot_queues.unread(NEW, [2, 3])) == [2]


@pytest.mark.parametrize(("key", "kind"), wrong("newtask_queue:3", but="stream"))
def test_a_publisher_is_not_stopped_by_a_slot_queue_of_another_type(
    redis_backend: Any, queues: Queues, key: str, kind: str
) -> None:
    WRONG[kind](redis_backend.client, key)
    messages = [Message(NEW, slot, slot) for slot in (2, 3, 4)]
    queues.slot_queues.publish(messages)
    queues.slot_queues.take(range(8))
    assert bodies(queues.slot_queues.read(NEW, 10)) == [2, 3, 4]
    assert queues.slot_queues.lengths()[NEW] == 3


def test_what_was_in_the_way_is_kept_and_told_to_everybody(
    redis_backend: Any, queues: Queues
) -> None:
    redis_backend.client.set("newtask_queue:3", "precious")
    publish(queues, 1, slot=3)
    other = redis_backend.process().slot_queues
    other.backlog()
    (aside,) = other.unreadable()
    assert redis_backend.client.get(aside) == b"precious"
    redis_backend.client.delete(aside)
    other.backlog()
    assert other.unreadable() == {}


@pytest.mark.parametrize(("key", "kind"), wrong("newtask_queue:ready", but="set"))
def test_a_ready_key_of_another_type_hides_no_slot(
    redis_backend: Any, queues: Queues, key: str, kind: str
) -> None:
    publish(queues, 1, slot=3)
    redis_backend.client.delete(key)
    WRONG[kind](redis_backend.client, key)
    publish(queues, 2, slot=4)
    queues.slot_queues.take(range(8))
    assert sorted(bodies(queues.slot_queues.read(NEW, 10))) == [1, 2]
    assert queues.slot_queues.lengths()[NEW] == 2
    assert [name.startswith(f"unreadable:{key}:") for name in queues.slot_queues.unreadable()]


def test_a_slot_that_somebody_took_out_of_the_ready_ones_is_found_again(
    redis_backend: Any, queues: Queues
) -> None:
    publish(queues, 1, slot=7000)
    redis_backend.client.delete("newtask_queue:ready")
    queues.slot_queues.take(range(16384))
    found: list[Any] = []
    for _ in range(200):
        found += bodies(queues.slot_queues.read(NEW, 10))
    assert found == [1]
    assert redis_backend.client.smembers("newtask_queue:ready") == {b"7000"}


def test_acknowledging_what_was_replaced_by_another_type_is_over(
    redis_backend: Any, queues: Queues
) -> None:
    queues.slot_queues.take(range(8))
    publish(queues, 1, slot=3)
    publish(queues, 2, slot=4)
    deliveries = queues.slot_queues.read(NEW, 10)
    redis_backend.client.set("newtask_queue:3", "x")
    queues.slot_queues.acknowledge(deliveries)
    assert queues.slot_queues.read(NEW, 10) == []
    assert queues.slot_queues.lengths()[NEW] == 0


@pytest.mark.parametrize(("key", "kind"), wrong("dead_letters", but="stream"))
def test_dead_letters_find_room_whatever_is_in_their_place(
    redis_backend: Any, queues: Queues, key: str, kind: str
) -> None:
    queues.slot_queues.take([0])
    redis_backend.put_raw(NEW, 0, b"\xc1")
    WRONG[kind](redis_backend.client, key)
    assert queues.slot_queues.read(NEW, 10) == []
    assert (queues.slot_queues.dead(), queues.slot_queues.lengths()[NEW]) == (1, 0)
    (letter,) = queues.slot_queues.dead_letters(10)
    assert letter.body == b"\xc1"


@pytest.mark.parametrize("key", [kind.value for kind in QueueKind])
@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "list"])
def test_an_inbox_of_another_type_stops_nothing(
    redis_backend: Any, queues: Queues, key: str, kind: str
) -> None:
    WRONG[kind](redis_backend.client, key)
    redis_backend.put_inbox(NEW if key == STATUS.value else STATUS, msgpack.packb({"project": "p"}))
    assert queues.inbox.forward(10) == 1
    assert set(queues.inbox.lengths().values()) == {0}
    redis_backend.put_inbox(QueueKind(key), msgpack.packb({"project": "p"}))
    assert queues.inbox.forward(10) == 1


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "stream"])
def test_the_inbox_is_moved_past_a_slot_queue_of_another_type(
    redis_backend: Any, kind: str
) -> None:
    queues = redis_backend.process(slots=1)
    WRONG[kind](redis_backend.client, "newtask_queue:0")
    redis_backend.put_inbox(NEW, msgpack.packb({"project": "p", "taskid": "t"}))
    assert queues.inbox.forward(10) == 1
    queues.slot_queues.take([0])
    assert len(queues.slot_queues.read(NEW, 10)) == 1


def test_a_slot_queue_whose_numbers_are_used_up_takes_messages_again(
    redis_backend: Any, queues: Queues
) -> None:
    publish(queues, 1)
    redis_backend.client.xadd("newtask_queue:0", {"body": msgpack.packb(2)}, id=HIGHEST)
    publish(queues, 3)
    queues.slot_queues.take([0])
    deliveries = queues.slot_queues.read(NEW, 10)
    assert bodies(deliveries) == [1, 2, 3]
    queues.slot_queues.acknowledge(deliveries)
    assert queues.slot_queues.lengths()[NEW] == 0


def test_dead_letters_whose_numbers_are_used_up_take_more(
    redis_backend: Any, queues: Queues
) -> None:
    redis_backend.client.xadd("dead_letters", {"reason": "x"}, id=HIGHEST)
    redis_backend.put_raw(NEW, 0, b"\xc1")
    queues.slot_queues.take([0])
    assert queues.slot_queues.read(NEW, 10) == []
    assert queues.slot_queues.dead_letters(1)[0].body == b"\xc1"


@pytest.mark.parametrize(
    "fields",
    [{"hello": "world"}, {"body": ""}, {"Body": "x"}, {"a": "b", "body": b"\xc1", "c": "d"}],
)
def test_an_admission_of_a_foreign_hand_goes_to_the_dead_letters(
    redis_backend: Any, queues: Queues, fields: dict[str, Any]
) -> None:
    publish(queues, 1)
    redis_backend.client.xadd("newtask_queue:0", fields)
    queues.slot_queues.take([0])
    assert bodies(queues.slot_queues.read(NEW, 10)) == [1]
    (letter,) = queues.slot_queues.dead_letters(10)
    assert letter.body == next(iter(fields.values())).encode()


FOREIGN: list[dict[str, Any]] = [
    {"hello": "world"},
    {"reason": "x", "kind": "newtask_queue"},
    {"reason": "x", "kind": "no_queue", "body": "x"},
    {"reason": "x", "kind": b"\xff", "body": "x"},
    {"reason": b"\xff", "kind": "newtask_queue", "slot": "seven", "body": "x"},
    {"reason": "x", "kind": "newtask_queue", "slot": "-1", "body": "x"},
    {"reason": "x", "kind": "newtask_queue", "slot": "99999999999999", "body": "x"},
]


@pytest.mark.parametrize("fields", FOREIGN)
def test_a_foreign_entry_among_the_dead_letters_is_shown_and_only_dropped(
    redis_backend: Any, queues: Queues, fields: dict[str, Any]
) -> None:
    tag = redis_backend.client.xadd("dead_letters", fields).decode()
    (letter,) = queues.slot_queues.dead_letters(10)
    assert "no dead letter of ours" in letter.reason
    assert queues.slot_queues.replay([tag]) == 0
    assert queues.slot_queues.dead() == 1
    assert queues.slot_queues.discard([tag]) == 1


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "text"])
def test_a_slot_record_of_another_type_is_none(
    redis_backend: Any, queues: Queues, kind: str
) -> None:
    queues.records.save_many({1: {"a": 1}})
    WRONG[kind](redis_backend.client, "slot_record:2")
    assert queues.records.load_many(range(8)) == {1: {"a": 1}}
    queues.records.save_many({2: {"b": 2}})
    assert queues.records.load(2) == {"b": 2}


def test_a_slot_record_that_cannot_be_read_is_moved_out_of_the_way(
    redis_backend: Any, queues: Queues
) -> None:
    redis_backend.client.set("slot_record:2", b"\xc1")
    assert queues.records.load_many([2]) == {}
    (aside, why) = next(iter(queues.slot_queues.unreadable().items()))
    assert redis_backend.client.get(aside) == b"\xc1"
    assert "record of slot 2 is no msgpack" in why


def test_the_list_of_what_is_unreadable_may_itself_be_junk(
    redis_backend: Any, queues: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    redis_backend.client.set("unreadable", "x")
    redis_backend.client.set("newtask_queue:0", "x")
    publish(queues, 1)
    queues.slot_queues.backlog()
    assert "unreadable:newtask_queue:0:" in caplog.text


def test_a_redis_that_is_away_is_still_away(own_redis: Any, own_backend: Any) -> None:
    queues = own_backend.process()
    own_redis.stop()
    for question in (
        lambda: publish(queues, 1),
        lambda: queues.slot_queues.read(NEW, 10),
        queues.slot_queues.backlog,
        lambda: queues.records.load_many([1]),
        queues.inbox.lengths,
    ):
        with pytest.raises(Unavailable):
            question()
