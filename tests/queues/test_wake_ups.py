"""Who waits for messages is woken by the first one of a queue that was empty."""

import threading

import pytest
import umsgpack  # type: ignore[import-untyped]

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues import redis_link, redis_wake_ups
from pyspider_zk.queues.api import Message, Queues
from pyspider_zk.queues.names import SLOT_WAKE_UPS, QueueKind, SlotQueue
from pyspider_zk.queues.redis_wake_ups import HIGHEST, LATEST
from tests.queues.conftest import SLOTS, Backend, RedisBackend
from tests.support.stand_ins import DEADLINE

NOW = 0.001
TASK = {"taskid": "t", "project": "p", "url": "http://site.example/"}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who reads wait as long as the test does, on however busy a machine."""
    monkeypatch.setattr(redis_wake_ups, "LONGEST_WAIT", DEADLINE)
    monkeypatch.setattr(redis_link, "ANSWER_TIMEOUT", 2 * DEADLINE)


def publish(queues: Queues, slot: int, kind: QueueKind = QueueKind.NEWTASK) -> None:
    queues.slot_queues.publish([Message(kind, slot, TASK)])


def empty(queues: Queues, slot: int, kind: QueueKind = QueueKind.NEWTASK) -> None:
    queues.slot_queues.take([slot])
    queues.slot_queues.acknowledge(queues.slot_queues.read(kind, 100))


def test_the_first_message_of_an_empty_queue_wakes_whoever_waits(backend: Backend) -> None:
    waiting, publishing = backend.process(), backend.process()
    waiting.wake_ups.wait(NOW)
    found: list[set[SlotQueue]] = []

    thread = threading.Thread(target=lambda: found.append(waiting.wake_ups.wait(DEADLINE)))
    thread.start()
    publish(publishing, 3)
    thread.join(DEADLINE)

    assert found == [{(QueueKind.NEWTASK, 3)}]


@pytest.mark.parametrize("kind", QueueKind)
def test_a_queue_wakes_again_when_it_was_emptied(backend: Backend, kind: QueueKind) -> None:
    queues = backend.process()
    publish(queues, 3, kind)
    assert queues.wake_ups.wait(NOW) == {(kind, 3)}

    publish(queues, 3, kind)
    assert queues.wake_ups.wait(NOW) == set(), "its owner reads until it finds nothing"

    empty(queues, 3, kind)
    publish(queues, 3, kind)
    assert queues.wake_ups.wait(NOW) == {(kind, 3)}


def test_what_came_while_nobody_waited_is_known_to_each_process(backend: Backend) -> None:
    first, second = backend.process(), backend.process()
    queues = backend.process()
    queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, TASK) for slot in (1, 2)])
    publish(queues, 5)

    expected = {(QueueKind.NEWTASK, slot) for slot in (1, 2, 5)}
    assert first.wake_ups.wait(NOW) == second.wake_ups.wait(NOW) == expected
    assert first.wake_ups.wait(NOW) == set()


def test_what_comes_through_the_inbox_wakes_as_well(backend: Backend) -> None:
    queues = backend.process()
    backend.put_inbox(QueueKind.NEWTASK, umsgpack.packb(TASK))
    assert queues.inbox.forward(10) == 1

    assert queues.wake_ups.wait(NOW) == {(QueueKind.NEWTASK, slot_of("p", SLOTS))}


@pytest.mark.redis
def test_wake_ups_that_nobody_reads_do_not_pile_up(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    for _ in range(5 * LATEST):
        publish(queues, 3)
        empty(queues, 3)

    assert redis_backend.client.xlen(SLOT_WAKE_UPS) <= 2 * LATEST


@pytest.mark.redis
def test_a_wrong_type_key_in_their_place_keeps_nobody_from_publishing(
    redis_backend: RedisBackend,
) -> None:
    queues = redis_backend.process()
    redis_backend.client.set(SLOT_WAKE_UPS, "x")

    publish(queues, 3)

    assert queues.wake_ups.wait(NOW) == {(QueueKind.NEWTASK, 3)}


@pytest.mark.redis
def test_names_that_are_of_no_slot_queue_wake_nobody(redis_backend: RedisBackend) -> None:
    queues = redis_backend.process()
    names = "3,newtask_queue,newtask_queue:,newtask_queue:x,status_queue:03,other:3,status_queue:3"
    redis_backend.client.xadd(SLOT_WAKE_UPS, {"queues": names})

    assert queues.wake_ups.wait(NOW) == {(QueueKind.STATUS, 3)}


@pytest.mark.redis
def test_a_wake_up_with_the_highest_number_deafens_nobody(redis_backend: RedisBackend) -> None:
    first, second = redis_backend.process(), redis_backend.process()
    redis_backend.client.xadd(SLOT_WAKE_UPS, {"queues": "newtask_queue:1"}, id=HIGHEST)
    publishing = redis_backend.process()
    for each in (first, second):
        each.wake_ups.wait(NOW)

    for slot in (3, 4):
        publish(publishing, slot)
        woken = {(QueueKind.NEWTASK, slot)}
        assert first.wake_ups.wait(NOW) == second.wake_ups.wait(NOW) == woken
