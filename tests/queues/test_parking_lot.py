"""What every implementation of ParkingLot must do."""

from typing import Any

import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery, Message, Parked, ParkingMove, Queues
from pyspider_zk.queues.codec import encode, pack
from pyspider_zk.queues.names import QueueKind, parked_key
from tests.queues.conftest import Backend, RedisBackend

FOREIGN_TAGS = ["", "x", "1-", "-1", "1-x", "1-1-1", " 1-1", "1_0-1", "\u0661-1", "9" * 5000]


@pytest.fixture
def queues(backend: Backend) -> Queues:
    return backend.process()


def deliver(
    queues: Queues, *bodies: Any, slot: int = 3, kind: QueueKind = QueueKind.NEWTASK
) -> Any:
    """Publish messages; return them as their owner reads them."""
    queues.slot_queues.publish([Message(kind, slot, body) for body in bodies])
    queues.slot_queues.take([slot])
    return queues.slot_queues.read(kind, 100)


def whole(delivery: Delivery, project: str = "p") -> Parked:
    return Parked(delivery.kind, delivery.slot, delivery.tag, project)


def put_off(delivery: Delivery, taskid: str) -> Parked:
    return Parked(delivery.kind, delivery.slot, delivery.tag, "p", taskid)


def test_a_parked_message_leaves_its_queue_and_is_found_by_the_next_owner(
    backend: Backend, queues: Queues
) -> None:
    one, two = deliver(queues, {"n": 1}, {"n": 2})

    assert queues.parking_lot.park([ParkingMove(one, whole(one), one.body)]) == [True]

    assert queues.slot_queues.lengths()[QueueKind.NEWTASK] == 1
    after = backend.process()
    after.slot_queues.take([3])
    assert [each.tag for each in after.slot_queues.read(QueueKind.NEWTASK, 9)] == [two.tag]
    assert after.parking_lot.load(range(8)) == [whole(one)]
    assert after.parking_lot.fetch([whole(one)]) == {whole(one): {"n": 1}}


def test_the_size_of_what_is_parked_is_known_before_it_is_read(queues: Queues) -> None:
    one, two = deliver(queues, {"n": 1}, {"n": "x" * 500})
    queues.parking_lot.park([ParkingMove(each, whole(each), each.body) for each in (one, two)])
    queues.parking_lot.remove([whole(one)])

    assert queues.parking_lot.sizes([whole(one), whole(two)]) == [0, len(encode(two.body))]


def test_parking_makes_room_for_publishers(backend: Backend) -> None:
    queues = backend.process(limit=1)
    (one,) = deliver(queues, {"n": 1})
    assert queues.slot_queues.full(QueueKind.NEWTASK, 3)

    queues.parking_lot.park([ParkingMove(one, whole(one), one.body)])

    assert not queues.slot_queues.full(QueueKind.NEWTASK, 3)


def test_a_later_request_takes_the_place_of_the_former(queues: Queues) -> None:
    one, two = deliver(queues, {"n": 1}, {"n": 2})
    first, second = put_off(one, "a b"), put_off(two, "a b")
    queues.parking_lot.park([ParkingMove(one, first, {"n": 1})])

    queues.parking_lot.park([ParkingMove(two, second, {"n": 1, "m": 2}, replaced=first)])

    assert queues.parking_lot.load([3]) == [second]
    assert queues.parking_lot.fetch([first, second]) == {second: {"n": 1, "m": 2}}


def test_a_move_that_is_repeated_changes_nothing(queues: Queues) -> None:
    (one,) = deliver(queues, {"n": 1})
    move = ParkingMove(one, whole(one), one.body)
    queues.parking_lot.park([move])
    queues.parking_lot.remove([whole(one)])

    assert queues.parking_lot.park([move]) == [True]

    assert queues.parking_lot.load([3]) == []


def test_a_message_that_was_acknowledged_is_not_parked_any_more(queues: Queues) -> None:
    (one,) = deliver(queues, {"n": 1})
    queues.slot_queues.acknowledge([one])

    queues.parking_lot.park([ParkingMove(one, whole(one), one.body)])

    assert queues.parking_lot.load([3]) == []


def test_a_whole_message_finds_no_room_at_the_limit_and_stays(queues: Queues) -> None:
    one, two, three = deliver(queues, 1, 2, 3)
    moves = [ParkingMove(each, whole(each), each.body) for each in (one, two)]

    assert queues.parking_lot.park(moves, limit=1) == [True, False]

    assert queues.slot_queues.lengths()[QueueKind.NEWTASK] == 2
    assert queues.parking_lot.load([3]) == [whole(one)]
    # but a task that was put off does: else what would release it could not arrive
    assert queues.parking_lot.park([ParkingMove(three, put_off(three, "t"), 3)], limit=1) == [True]


def test_what_is_parked_is_told_in_the_order_of_publishing(queues: Queues) -> None:
    news = deliver(queues, *range(12))
    packs = deliver(queues, *range(12), kind=QueueKind.STATUS)
    moves = [
        ParkingMove(each, whole(each), each.body) for each in [*reversed(packs), *reversed(news)]
    ]
    queues.parking_lot.park(moves)

    found = queues.parking_lot.load([3])

    for kind, sent in ((QueueKind.NEWTASK, news), (QueueKind.STATUS, packs)):
        assert [each.tag for each in found if each.kind is kind] == [each.tag for each in sent]


def test_only_what_is_asked_for_is_told(queues: Queues) -> None:
    (one,) = deliver(queues, 1, slot=1)
    (two,) = deliver(queues, 2, slot=2)
    queues.parking_lot.park([ParkingMove(each, whole(each), each.body) for each in (one, two)])

    assert queues.parking_lot.load([2, 5]) == [whole(two)]
    assert queues.parking_lot.load([]) == []


def test_what_is_rejected_becomes_a_dead_letter_that_can_be_replayed(queues: Queues) -> None:
    (one,) = deliver(queues, {"n": 1})
    queues.parking_lot.park([ParkingMove(one, whole(one), one.body)])

    queues.parking_lot.reject(whole(one), "of no use")

    assert queues.parking_lot.load([3]) == []
    (letter,) = queues.slot_queues.dead_letters(9)
    assert (letter.kind, letter.slot, letter.reason) == (QueueKind.NEWTASK, 3, "of no use")
    queues.slot_queues.replay([letter.tag])
    queues.slot_queues.take([3])
    assert [each.body for each in queues.slot_queues.read(QueueKind.NEWTASK, 9)] == [{"n": 1}]


def test_a_parked_message_moves_within_the_lot(queues: Queues) -> None:
    (one,) = deliver(queues, 2)
    queues.parking_lot.park([ParkingMove(one, whole(one), 2)])

    queues.parking_lot.park([ParkingMove(whole(one), put_off(one, "t"), 2)])

    assert queues.parking_lot.load([3]) == [put_off(one, "t")]


def test_number_and_age_are_told_per_slot(queues: Queues) -> None:
    assert queues.parking_lot.waiting() == {}
    one, two = deliver(queues, 1, 2)
    queues.parking_lot.park([ParkingMove(each, whole(each), each.body) for each in (one, two)])

    (slot, waiting), *others = queues.parking_lot.waiting().items()

    assert (slot, waiting.length, others) == (3, 2, [])
    assert 0 <= waiting.age < 60
    queues.parking_lot.remove([whole(one), whole(two)])
    assert queues.parking_lot.waiting() == {}


def test_what_has_no_wire_form_is_refused_and_nothing_moved(queues: Queues) -> None:
    (one,) = deliver(queues, 1)
    with pytest.raises(BadMessage):
        queues.parking_lot.park([ParkingMove(one, whole(one), {1, 2})])
    assert queues.slot_queues.lengths()[QueueKind.NEWTASK] == 1


def test_the_tags_of_every_message_queue_can_be_part_of_a_name(queues: Queues) -> None:
    (one,) = deliver(queues, 1)

    assert Parked.named(3, put_off(one, "a b").name.encode()) == put_off(one, "a b")


def test_nothing_at_once(queues: Queues) -> None:
    assert queues.parking_lot.park([]) == []
    assert queues.parking_lot.fetch([]) == {}
    queues.parking_lot.remove([])


def test_the_oldest_that_was_not_read_is_told(queues: Queues) -> None:
    queues.slot_queues.publish([Message(QueueKind.NEWTASK, 3, n) for n in range(3)])
    queues.slot_queues.take([3, 4])
    one, _ = queues.slot_queues.read(QueueKind.NEWTASK, 2)
    queues.slot_queues.acknowledge([one])

    unread = queues.slot_queues.unread(QueueKind.NEWTASK, [3, 4])

    (last,) = queues.slot_queues.read(QueueKind.NEWTASK, 9)
    assert unread == {3: last.tag}
    assert queues.slot_queues.unread(QueueKind.NEWTASK, [3, 4]) == {}


@pytest.mark.redis
def test_junk_in_redis_is_passed_over(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    (one,) = deliver(queues, 1)
    queues.parking_lot.park([ParkingMove(one, whole(one), 1)])
    redis_backend.client.sadd("parked:ready", "junk", 5)
    for tag in FOREIGN_TAGS:
        redis_backend.client.hset("parked:3", f"{tag} newtask_queue p ", b"\xc1")
    redis_backend.client.hset("parked:3", "junk", b"\xc1")
    redis_backend.client.set("parked:5", "no hash")

    assert queues.parking_lot.load(range(8)) == [whole(one)]
    assert queues.parking_lot.waiting()[3].length == 1


@pytest.mark.redis
def test_a_parked_body_that_is_no_message_is_rejected(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    (one,) = deliver(queues, 1)
    queues.parking_lot.park([ParkingMove(one, whole(one), 1)])
    redis_backend.client.hset("parked:3", f"{one.tag} newtask_queue p ", b"\xc1")

    assert queues.parking_lot.fetch([whole(one)]) == {}

    assert queues.parking_lot.load([3]) == []
    assert queues.slot_queues.dead() == 1


@pytest.mark.redis
def test_a_key_that_is_no_hash_is_moved_out_of_the_way(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    (one,) = deliver(queues, 1, slot=1)
    (two,) = deliver(queues, 2, slot=2)
    redis_backend.client.set("parked:1", "no hash")

    moves = [ParkingMove(each, whole(each), each.body) for each in (one, two)]
    assert queues.parking_lot.park(moves) == [True, True]

    assert queues.parking_lot.load(range(8)) == [whole(one), whole(two)]
    assert queues.slot_queues.lengths()[QueueKind.NEWTASK] == 0
    assert any("parked:1 was a string" in why for why in queues.slot_queues.unreadable().values())


@pytest.mark.redis
@pytest.mark.parametrize("key", ["parked:3", "parked:ready"])
def test_what_is_parked_can_be_read_and_removed_whatever_is_in_its_place(
    redis_backend: RedisBackend, key: str
) -> None:
    queues = redis_backend.process()
    (one,) = deliver(queues, 1)
    queues.parking_lot.park([ParkingMove(one, whole(one), 1)])
    redis_backend.client.delete(key)
    redis_backend.client.set(key, "neither hash nor set")

    assert queues.parking_lot.fetch([whole(one)]) == ({} if key == "parked:3" else {whole(one): 1})
    redis_backend.client.delete(key)
    redis_backend.client.set(key, "neither hash nor set")
    queues.parking_lot.remove([whole(one)])

    assert queues.parking_lot.load([3]) == []
    told = queues.slot_queues.unreadable().values()
    assert any(f"{key} was a string" in why for why in told)


def test_a_list_that_a_member_of_before_parked_goes_back_task_by_task(queues: Queues) -> None:
    (one,) = deliver(queues, {"n": 1})
    queues.parking_lot.park([ParkingMove(one, whole(one), [{"n": 2}, {"n": 3}])])

    assert queues.parking_lot.fetch([whole(one)]) == {}

    assert queues.parking_lot.load([3]) == []
    assert queues.parking_lot.waiting() == {}
    found = queues.slot_queues.read(QueueKind.NEWTASK, 9)
    assert [each.body for each in found] == [{"n": 2}, {"n": 3}]


def test_a_parked_list_that_is_too_large_to_go_back_is_a_dead_letter(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = deliver(queues, {"n": 1}, {"n": 2})
    tasks = [{"taskid": "t", "project": "p", "fetch": "x" * 500}]
    bodies = {whole(one): tasks, whole(two): two.body}
    moves = [ParkingMove(each, whole(each), bodies[whole(each)]) for each in (one, two)]
    queues.parking_lot.park(moves)
    monkeypatch.setattr(caps, "MESSAGE", 500)

    assert queues.parking_lot.fetch(bodies) == {whole(two): two.body}

    (letter,) = queues.slot_queues.dead_letters(9)
    assert letter.body == pack(tasks)
    assert "task 't' of project 'p' has" in letter.reason
    assert queues.parking_lot.load([3]) == [whole(two)]
    assert queues.slot_queues.lengths()[QueueKind.NEWTASK] == 0


@pytest.mark.redis
def test_what_cannot_be_rejected_or_split_now_keeps_nothing_else_from_being_read(
    own_redis: RedisServer,
) -> None:
    """A Redis out of memory accepts neither until something is acknowledged."""
    redis = RedisBackend(own_redis.url)
    queues = redis.process()
    junk, tasks, good = map(whole, deliver(queues, 1, 2, 3))
    redis.client.hset(
        parked_key(3),
        mapping={junk.name: b"\xc1", tasks.name: encode([{"n": 1}]), good.name: encode({"n": 3})},
    )
    redis.client.config_set("maxmemory", 1)

    assert queues.parking_lot.fetch([junk, tasks, good]) == {good: {"n": 3}}
    redis.client.config_set("maxmemory", 0)
    assert queues.parking_lot.sizes([junk, tasks]) == [1, len(encode([{"n": 1}]))]
    redis.close()
