"""What is special to slot queues in Redis: what they leave there, and restarts."""

from typing import Any

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery, Message, SlotQueues
from pyspider_zk.queues.names import QueueKind

pytestmark = pytest.mark.redis

NEW = QueueKind.NEWTASK


def publish(queues: SlotQueues, *numbers: int, slot: int = 0) -> None:
    queues.publish([Message(NEW, slot, number) for number in numbers])


def bodies(deliveries: list[Delivery]) -> list[int]:
    return [delivery.body for delivery in deliveries]


def test_slots_without_messages_leave_nothing_in_redis(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    queues.take(range(16384))
    assert queues.read(NEW, 100) == []
    assert queues.lengths()[NEW] == 0
    assert redis_backend.client.keys() == []


def test_a_slot_is_ready_from_its_first_message_to_its_last_acknowledgement(
    redis_backend: Any,
) -> None:
    queues = redis_backend.process().slot_queues
    queues.take([3])
    publish(queues, 1, 2, slot=3)
    first, second = queues.read(NEW, 10)
    queues.acknowledge([first])
    assert redis_backend.client.smembers("newtask_queue:ready") == {b"3"}
    queues.acknowledge([second])
    assert redis_backend.client.exists("newtask_queue:ready") == 0


def test_rejecting_the_last_message_ends_readiness(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    queues.take([3])
    publish(queues, 1, slot=3)
    queues.reject(queues.read(NEW, 10)[0], "x")
    assert redis_backend.client.exists("newtask_queue:ready") == 0


def test_a_message_that_is_too_large_leaves_no_slot_ready(
    redis_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = redis_backend.process()
    queues = process.slot_queues
    queues.take([3, 4])
    for slot in (3, 4):
        queues.publish([Message(NEW, slot, "x" * 2000)])
    publish(queues, 1, slot=4)
    process.wake_ups.wait(0.001)
    monkeypatch.setattr(caps, "MESSAGE", 1000)
    assert bodies(queues.read(NEW, 10)) == [1]
    assert redis_backend.client.smembers("newtask_queue:ready") == {b"4"}
    publish(queues, 2, slot=3)
    assert process.wake_ups.wait(0.001) == {(NEW, 3)}


def test_an_emptied_redis_is_read_on_without_a_restart(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    queues.take([0])
    publish(queues, 1)
    queues.acknowledge(queues.read(NEW, 10))
    redis_backend.client.flushall()
    # A clock that went back, or another Redis: the new entry is older than what was read.
    redis_backend.client.xadd("newtask_queue:0", {"body": b"\x02"}, id="1-0")
    redis_backend.client.sadd("newtask_queue:ready", 0)
    assert bodies(queues.read(NEW, 10)) == [2]


def test_the_dead_letters_have_an_end(redis_backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "LETTERS", 100)
    queues = redis_backend.process().slot_queues
    queues.take([0])
    publish(queues, *range(400))
    for delivery in queues.read(NEW, 400):
        queues.reject(delivery, "x")
    assert 100 <= queues.dead() <= 250  # Redis trims by whole blocks


def test_thousands_of_acknowledgements_at_once(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    queues.take(range(3000))
    for slot in range(0, 3000, 2):
        publish(queues, *range(5), slot=slot)
    deliveries = queues.read(NEW, 20_000)
    assert len(deliveries) == 7500
    queues.acknowledge(deliveries)
    assert queues.lengths()[NEW] == 0


def test_acknowledging_asks_once_for_each_slot_and_only_if_there_is_something(
    own_backend: Any,
) -> None:
    queues = own_backend.process().slot_queues
    queues.take([0, 1])
    publish(queues, 1, 2)
    publish(queues, 3, slot=1)
    deliveries = queues.read(NEW, 10)
    own_backend.client.config_resetstat()
    queues.acknowledge(deliveries)
    queues.acknowledge([])
    stats = own_backend.client.info("commandstats")
    assert (stats["cmdstat_xdel"]["calls"], stats["cmdstat_eval"]["calls"]) == (2, 1)


def test_a_redis_out_of_memory_can_still_be_emptied(own_backend: Any) -> None:
    queues = own_backend.process().slot_queues
    queues.take([0])
    publish(queues, 1)
    own_backend.put_raw(NEW, 0, b"\xc1")
    publish(queues, 2)
    own_backend.client.config_set("maxmemory", 1)
    with pytest.raises(Unavailable):
        publish(queues, 3)
    deliveries = queues.read(NEW, 10)
    assert bodies(deliveries) == [1, 2], "what cannot be rejected now stops nobody"
    queues.acknowledge(deliveries)
    assert (queues.lengths()[NEW], queues.dead()) == (1, 0)
    own_backend.client.config_set("maxmemory", 0)
    assert queues.read(NEW, 10) == []
    assert (queues.lengths()[NEW], queues.dead()) == (0, 1)


def test_a_restart_of_redis_loses_nothing(own_redis: RedisServer, own_backend: Any) -> None:
    processor, owner = own_backend.process().slot_queues, own_backend.process().slot_queues
    owner.take([0])
    publish(processor, 1, 2, 3)
    first, _ = owner.read(NEW, 2)
    owner.acknowledge([first])
    own_redis.stop()
    with pytest.raises(Unavailable):
        owner.read(NEW, 10)
    with pytest.raises(Unavailable):
        publish(processor, 4)
    own_redis.start()
    publish(processor, 4)
    assert bodies(owner.read(NEW, 10)) == [3, 4]
    heir = own_backend.process().slot_queues
    heir.take([0])
    assert bodies(heir.read(NEW, 10)) == [2, 3, 4]


def test_acknowledgements_that_redis_missed_are_caught_up(
    own_redis: RedisServer, own_backend: Any
) -> None:
    queues = own_backend.process().slot_queues
    queues.take([0])
    publish(queues, 1, 2)
    first, second = queues.read(NEW, 10)
    own_redis.stop()
    with pytest.raises(Unavailable):
        queues.acknowledge([first])
    own_redis.start()
    queues.acknowledge([second])
    assert queues.lengths()[NEW] == 0


def test_a_redis_that_can_only_be_read_is_not_read_ahead(own_backend: Any) -> None:
    # given
    queues = own_backend.process().slot_queues
    queues.take([0])
    publish(queues, 1, 2, 3, 4)
    applied = queues.read(NEW, 2)
    own_backend.client.replicaof("127.0.0.1", "1")  # a former master, after a failover
    # when
    with pytest.raises(Unavailable):
        queues.acknowledge(applied)
    with pytest.raises(Unavailable):
        queues.read(NEW, 2)
    # then
    own_backend.client.replicaof("NO", "ONE")
    assert bodies(queues.read(NEW, 2)) == [3, 4]
    assert queues.lengths()[NEW] == 2


def test_a_read_that_finds_nothing_sends_few_commands_however_many_slots(
    redis_backend: Any,
) -> None:
    queues = redis_backend.process()
    queues.slot_queues.take(range(1000))
    redis_backend.client.config_resetstat()

    for _ in range(10):
        for kind in QueueKind:
            assert queues.slot_queues.read(kind, 100) == []
        assert queues.inbox.forward(100) == 0

    commands = redis_backend.client.info("commandstats")
    commands.pop("cmdstat_config|resetstat", None)
    reads = sum(commands.pop(f"cmdstat_{name}")["calls"] for name in ("eval", "smembers", "xread"))
    assert reads == 10 * len(QueueKind) * 3
    assert commands.pop("cmdstat_exists")["calls"] == 10
    assert not {name for name in commands if name not in ("cmdstat_client|setinfo", "cmdstat_info")}
