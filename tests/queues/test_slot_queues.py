"""What every implementation of SlotQueues must do."""

import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.queues.api import Delivery, Message, SlotQueues
from pyspider_zk.queues.names import QueueKind

NEW, STATUS = QueueKind.NEWTASK, QueueKind.STATUS
NOT_MSGPACK = [b"\xc1", b"\x81\x91\x01\x02"]  # the second has a list as a key


def tasks(*numbers: int, slot: int = 0, kind: QueueKind = NEW) -> list[Message]:
    return [Message(kind, slot, {"taskid": str(n), "project": "p"}) for n in numbers]


def ids(deliveries: list[Delivery]) -> list[int]:
    return [int(delivery.body["taskid"]) for delivery in deliveries]


@pytest.fixture
def queues(backend: Any) -> SlotQueues:
    return backend.process().slot_queues


@pytest.fixture
def others(backend: Any) -> SlotQueues:
    """Give the slot queues as another process sees them."""
    return backend.process().slot_queues


def test_messages_of_a_slot_come_in_the_order_they_were_published(queues: SlotQueues) -> None:
    queues.publish(tasks(1, 2))
    queues.publish(tasks(3))
    queues.take([0])
    assert ids(queues.read(NEW, 10)) == [1, 2, 3]


def test_a_delivery_says_where_it_came_from_and_carries_the_body(queues: SlotQueues) -> None:
    body = {"taskid": "a", "blob": b"\x00\xff", "text": "ü", 1: 2.5, "none": None}
    queues.publish([Message(STATUS, 3, body)])
    queues.take([3])
    (delivery,) = queues.read(STATUS, 10)
    assert (delivery.kind, delivery.slot, delivery.body) == (STATUS, 3, body)


def test_the_kinds_are_separate_queues(queues: SlotQueues) -> None:
    queues.publish(tasks(1) + tasks(2, kind=STATUS))
    queues.take([0])
    assert (ids(queues.read(NEW, 9)), ids(queues.read(STATUS, 9))) == ([1], [2])


def test_only_taken_slots_are_read(queues: SlotQueues) -> None:
    queues.publish(tasks(1, slot=1) + tasks(2, slot=2))
    assert queues.read(NEW, 10) == []
    queues.take([2])
    assert ids(queues.read(NEW, 10)) == [2]


def test_who_knows_where_something_is_looks_only_there(queues: SlotQueues) -> None:
    queues.publish(tasks(1, slot=1) + tasks(2, slot=2) + tasks(3, slot=3))
    queues.take([1, 2])
    assert ids(queues.read(NEW, 10, [2, 3])) == [2]
    assert queues.read(NEW, 10, []) == []
    assert ids(queues.read(NEW, 10)) == [1]


def test_a_dropped_slot_is_not_read(queues: SlotQueues) -> None:
    queues.take([1, 2])
    queues.publish(tasks(1, slot=1) + tasks(2, slot=2))
    queues.drop([1])
    assert ids(queues.read(NEW, 10)) == [2]


def test_an_owner_gets_a_message_once_however_often_it_reads(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2))
    first = queues.read(NEW, 10)
    queues.publish(tasks(3))
    second = queues.read(NEW, 10)
    queues.acknowledge(first)
    assert (ids(first), ids(second), queues.read(NEW, 10)) == ([1, 2], [3], [])


def test_acknowledging_out_of_order_brings_nothing_back(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2, 3))
    first, second, third = queues.read(NEW, 10)
    queues.acknowledge([third, first])
    assert queues.read(NEW, 10) == []
    assert queues.lengths()[NEW] == 1
    queues.acknowledge([second])
    assert queues.lengths()[NEW] == 0


def test_the_next_owner_gets_first_what_was_not_acknowledged(
    queues: SlotQueues, others: SlotQueues
) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2, 3, 4))
    done, *_ = queues.read(NEW, 3)
    queues.acknowledge([done])
    others.take([0])
    assert ids(others.read(NEW, 10)) == [2, 3, 4]


def test_taking_a_slot_again_starts_over(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2))
    queues.read(NEW, 1)
    queues.drop([0])
    queues.take([0])
    assert ids(queues.read(NEW, 10)) == [1, 2]


def test_taking_a_slot_that_was_taken_already_starts_over(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2))
    queues.read(NEW, 1)
    queues.take([0])
    assert ids(queues.read(NEW, 10)) == [1, 2]


def test_a_former_owner_that_still_reads_takes_nothing_away(
    queues: SlotQueues, others: SlotQueues
) -> None:
    queues.take([0])
    others.take([0])
    queues.publish(tasks(1))
    assert ids(queues.read(NEW, 10)) == [1]
    assert ids(others.read(NEW, 10)) == [1]


def test_a_former_owner_may_acknowledge_late(queues: SlotQueues, others: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1))
    late = queues.read(NEW, 10)
    queues.drop([0])
    others.take([0])
    again = others.read(NEW, 10)
    queues.acknowledge(late)
    others.acknowledge(again)
    others.publish(tasks(2))
    assert ids(others.read(NEW, 10)) == [2]


def test_acknowledged_messages_are_deleted(queues: SlotQueues, others: SlotQueues) -> None:
    queues.take([0, 1])
    queues.publish(tasks(1) + tasks(2, slot=1) + tasks(3, slot=1, kind=STATUS))
    queues.acknowledge(queues.read(NEW, 10) + queues.read(STATUS, 10))
    others.take([0, 1])
    assert others.read(NEW, 10) + others.read(STATUS, 10) == []
    assert others.lengths() == {NEW: 0, STATUS: 0}


def test_acknowledging_nothing_or_twice_is_harmless(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2))
    first, _ = queues.read(NEW, 10)
    queues.acknowledge([])
    queues.acknowledge([first])
    queues.acknowledge([first])
    assert queues.lengths()[NEW] == 1


def test_publishing_nothing_is_harmless(queues: SlotQueues) -> None:
    queues.publish([])
    assert queues.lengths() == {NEW: 0, STATUS: 0}


def test_lengths_count_unread_and_unacknowledged(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2) + tasks(3, slot=5) + tasks(4, kind=STATUS))
    queues.read(NEW, 1)
    assert queues.lengths() == {NEW: 3, STATUS: 1}


def test_the_backlog_tells_what_waits_in_each_queue(queues: SlotQueues) -> None:
    queues.publish(tasks(1, 2) + tasks(3, slot=5) + tasks(4, kind=STATUS))
    queues.take([5])
    queues.acknowledge(queues.read(NEW, 9))
    backlog = queues.backlog()
    assert {queue: waiting.length for queue, waiting in backlog.items()} == {
        (NEW, 0): 2,
        (STATUS, 0): 1,
    }


def test_the_age_of_a_backlog_is_that_of_its_oldest_message(
    queues: SlotQueues, eventually: Callable[..., None]
) -> None:
    queues.take([0])
    queues.publish(tasks(1))
    eventually(lambda: queues.backlog()[NEW, 0].age > 0.2)
    began = time.monotonic()
    queues.publish(tasks(2))
    assert queues.backlog()[NEW, 0].age > 0.2
    queues.acknowledge(queues.read(NEW, 1))
    assert queues.backlog()[NEW, 0].age < time.monotonic() - began + 0.1


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_reads_nothing(queues: SlotQueues, limit: int) -> None:
    queues.take([0])
    queues.publish(tasks(1))
    assert queues.read(NEW, limit) == []
    assert ids(queues.read(NEW, 1)) == [1]


def test_a_flooded_slot_does_not_starve_the_others(queues: SlotQueues) -> None:
    queues.take(range(4))
    queues.publish(tasks(*range(100)))
    queues.publish([message for slot in (1, 2, 3) for message in tasks(slot, slot=slot)])
    read = Counter(delivery.slot for delivery in queues.read(NEW, 40))
    assert read == {0: 37, 1: 1, 2: 1, 3: 1}


def test_slots_that_found_no_place_come_first_next_time(queues: SlotQueues) -> None:
    queues.take(range(6))
    for slot in range(6):
        queues.publish(tasks(1, 2, slot=slot))
    rounds = [queues.read(NEW, 2) for _ in range(6)]
    assert all(len(deliveries) == 2 for deliveries in rounds)
    first_three = Counter(delivery.slot for part in rounds[:3] for delivery in part)
    assert first_three == dict.fromkeys(range(6), 1)


def test_the_odd_messages_of_a_limit_go_round(queues: SlotQueues) -> None:
    queues.take(range(3))
    for slot in range(3):
        queues.publish(tasks(*range(100), slot=slot))
    counts = Counter(delivery.slot for _ in range(3) for delivery in queues.read(NEW, 4))
    assert counts == dict.fromkeys(range(3), 4)


@pytest.mark.parametrize("raw", NOT_MSGPACK)
def test_undecodable_bytes_are_rejected_and_stop_nobody(
    backend: Any, queues: SlotQueues, raw: bytes
) -> None:
    queues.take([2])
    queues.publish(tasks(1, slot=2))
    backend.put_raw(NEW, 2, raw)
    queues.publish(tasks(3, slot=2))
    assert ids(queues.read(NEW, 10)) == [1, 3]
    assert queues.lengths()[NEW] == 2
    (letter,) = queues.dead_letters(10)
    assert (letter.kind, letter.slot, letter.body) == (NEW, 2, raw)
    assert "no msgpack" in letter.reason


def test_reject_moves_a_message_to_the_dead_letters(queues: SlotQueues) -> None:
    queues.take([4])
    queues.publish(tasks(1, 2, slot=4, kind=STATUS))
    first, _ = queues.read(STATUS, 10)
    queues.reject(first, "no such project")
    assert (queues.dead(), queues.lengths()[STATUS]) == (1, 1)
    (letter,) = queues.dead_letters(10)
    assert (letter.kind, letter.slot, letter.reason) == (STATUS, 4, "no such project")
    assert b"taskid" in letter.body
    assert letter.time > 1_600_000_000


def test_a_message_is_rejected_once(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1))
    (delivery,) = queues.read(NEW, 10)
    queues.reject(delivery, "first")
    queues.reject(delivery, "second")
    assert [letter.reason for letter in queues.dead_letters(10)] == ["first"]


def test_dead_letters_come_newest_first_and_stay(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1, 2, 3))
    for delivery in queues.read(NEW, 10):
        queues.reject(delivery, f"reason {delivery.body['taskid']}")
    assert [letter.reason for letter in queues.dead_letters(2)] == ["reason 3", "reason 2"]
    assert queues.dead() == 3


def test_a_long_reason_is_cut(queues: SlotQueues) -> None:
    queues.take([0])
    queues.publish(tasks(1))
    queues.reject(queues.read(NEW, 1)[0], "x" * 10_000)
    assert len(queues.dead_letters(1)[0].reason) == 200


def test_a_body_that_cannot_be_encoded_is_named_and_nothing_is_published(
    queues: SlotQueues,
) -> None:
    bad = {"taskid": "the bad one", "project": "shop", "fetch": {"data": {1, 2}}}
    with pytest.raises(BadMessage, match=r"'the bad one' of project 'shop'.*'set'"):
        queues.publish([*tasks(1), Message(NEW, 0, bad)])
    assert queues.lengths()[NEW] == 0


def test_a_publisher_waits_for_room(backend: Any, others: SlotQueues) -> None:
    others.take([0])

    def make_room(_: float) -> None:
        others.acknowledge(others.read(NEW, 1))

    queues = backend.process(limit=2, wait=make_room).slot_queues
    queues.publish(tasks(1, 2))
    assert queues.full(NEW, 0)
    queues.publish(tasks(3))
    assert queues.lengths()[NEW] == 2
    assert ids(others.read(NEW, 10)) == [2, 3]


def test_a_publisher_at_the_limit_of_a_dead_owner_goes_on_once_the_next_one_reads(
    backend: Any, others: SlotQueues
) -> None:
    # given an owner that read, and died before it acknowledged
    waits = Event()
    queues = backend.process(limit=2, wait=lambda _: waits.set()).slot_queues
    others.take([0, 1])
    queues.publish(tasks(1, 2))
    others.read(NEW, 10)
    thread = Thread(target=queues.publish, args=[tasks(3)])
    thread.start()
    assert waits.wait(60)
    # when another process has something for another slot of the dead
    backend.process(limit=2, wait=fail).slot_queues.publish(tasks(4, slot=1))
    # and the next owner takes over
    heir = backend.process().slot_queues
    heir.take([0, 1])
    first = heir.read(NEW, 10)
    heir.acknowledge(first)
    thread.join(60)
    # then
    assert sorted(ids(first)) == [1, 2, 4]
    assert ids(heir.read(NEW, 10)) == [3]


def test_a_full_queue_does_not_hold_up_the_others(backend: Any) -> None:
    queues = backend.process(limit=1, wait=fail).slot_queues
    queues.publish(tasks(1))
    queues.publish(tasks(2, slot=1) + tasks(3, kind=STATUS))
    assert (queues.full(NEW, 0), queues.full(NEW, 2)) == (True, False)


def test_without_a_limit_nobody_waits(backend: Any) -> None:
    queues = backend.process(limit=0, wait=fail).slot_queues
    for _ in range(5):
        queues.publish(tasks(*range(100)))
    assert not queues.full(NEW, 0)


def test_a_queue_that_was_emptied_by_its_owner_is_not_full(
    backend: Any, others: SlotQueues
) -> None:
    queues = backend.process(limit=2, wait=fail).slot_queues
    queues.publish(tasks(1, 2))
    others.take([0])
    others.acknowledge(others.read(NEW, 10))
    assert not queues.full(NEW, 0)
    queues.publish(tasks(3))


def test_close_wakes_a_waiting_publisher(backend: Any) -> None:
    queues = backend.process(limit=1).slot_queues
    queues.publish(tasks(1))
    raised, outcome = Event(), []

    def publish() -> None:
        try:
            queues.publish(tasks(2))
        except Unavailable as error:
            outcome.append(error)
            raised.set()

    thread = Thread(target=publish)
    thread.start()
    queues.close()
    thread.join(timeout=60)
    assert raised.is_set()
    assert outcome


def test_close_while_waiting_publishes_nothing(backend: Any) -> None:
    close: list[Callable[[], None]] = []
    queues = backend.process(limit=1, wait=lambda _: close[0]()).slot_queues
    close.append(queues.close)
    queues.publish(tasks(1))
    with pytest.raises(Unavailable, match="closed"):
        queues.publish(tasks(2))
    assert backend.process().slot_queues.lengths()[NEW] == 1


def test_a_closed_queue_refuses_to_publish(queues: SlotQueues) -> None:
    queues.close()
    with pytest.raises(Unavailable, match="closed"):
        queues.publish(tasks(1))


def fail(_: float) -> None:
    pytest.fail("waited though there was room")


def test_a_list_that_was_published_before_is_read_task_by_task(
    queues: SlotQueues, others: SlotQueues
) -> None:
    listed = [{"taskid": str(n), "project": "p"} for n in range(3)]
    queues.publish([*tasks(7), Message(NEW, 0, listed), Message(NEW, 0, [])])
    queues.take([0])
    assert ids(queues.read(NEW, 10)) == [7]
    assert ids(queues.read(NEW, 10)) == [0, 1, 2]
    assert queues.lengths()[NEW] == 4

    others.take([0])
    assert ids(others.read(NEW, 10)) == [7, 0, 1, 2]
