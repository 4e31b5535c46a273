"""Parts alone: the leader's decision, and the slot queues."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import redis

from pyspider_zk.cluster.records import Assignment, Member, Slot
from pyspider_zk.cluster.rules import Rules, Snapshot, Stamp, decide
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from tests.bench.bench import Bench
from tests.bench.figures import in_turn, summary

DECIDE_SLOTS = 16_384
MEMBERS = 100


def decision(bench: Bench) -> dict[str, Any]:
    """Return seconds of a decision: nothing to do, the first grant, and after a death."""
    members = [MemberId(number, f"incarnation-{number}") for number in range(MEMBERS)]
    newborn = _snapshot(Assignment.vacant(DECIDE_SLOTS), members)
    settled = _snapshot(_settled(members), members)
    lost = {name: record for name, record in settled.members.items() if name != members[0]}
    dead = replace(settled, members=lost, stamps={name: settled.stamps[name] for name in lost})
    cases = {"first grant": newborn, "nothing to do": settled, "after a death": dead}
    return in_turn(max(5, bench.size.runs), cases, lambda name: _decided(cases[name]))


def _decided(snapshot: Snapshot) -> dict[str, float]:
    begin = time.perf_counter()
    decide(snapshot, Rules())
    return {"s": time.perf_counter() - begin}


def _settled(members: list[MemberId]) -> Assignment:
    return Assignment(1, tuple(Slot(members[slot % MEMBERS], 1) for slot in range(DECIDE_SLOTS)))


def _snapshot(assignment: Assignment, members: list[MemberId]) -> Snapshot:
    record = Member(address="127.0.0.1:1", host="bench", pid=1, version="", started=0.0)
    weights = {slot: slot % 7 for slot in range(DECIDE_SLOTS)}
    stamps = {member: Stamp(1, 1.0) for member in members}
    return Snapshot(assignment, dict.fromkeys(members, record), stamps, {}, weights, 1.0)


NEW = QueueKind.NEWTASK
QUEUE_SLOTS = (256, 16_384)
TASKS = 20_000
TASK = {"taskid": "0" * 32, "url": "http://localhost/a/page", "schedule": {"age": 3600}}


def slot_queues(bench: Bench) -> dict[str, Any]:
    """Return seconds of each step, by number of slots."""
    runs = range(bench.size.runs)
    found = {
        f"{slots} slots": summary([_idle(bench, slots) for _ in runs]) for slots in QUEUE_SLOTS
    }
    return found | {"flow": summary([_flow(bench) for _ in runs])}


def _timed(work: Callable[[], object], count: int = 1) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - begin) / count


def _task(number: int, projects: int = 1000) -> dict[str, Any]:
    return TASK | {"project": f"p{number % projects}", "process": {"callback": str(number)}}


def _idle(bench: Bench, slots: int) -> dict[str, float]:
    """Measure what slots without messages cost."""
    _empty(bench)
    queues = connect(bench.redis.url, 0, slots).slot_queues
    found = {"take": _timed(lambda: queues.take(range(slots)))}
    found["read, all empty"] = _timed(lambda: queues.read(NEW, 1000), 100)
    queues.publish([Message(NEW, 7 % slots, _task(0))])
    found["read, one with something"] = _timed(lambda: queues.read(NEW, 1000), 100)
    queues.publish([Message(NEW, slot, _task(slot)) for slot in range(slots)])
    found["lengths of all"] = _timed(queues.lengths, 5)
    found["first read of 1000"] = _timed(lambda: queues.read(NEW, 1000))
    queues.close()
    return found


def _flow(bench: Bench) -> dict[str, float]:
    """Measure messages on their way."""
    _empty(bench)
    slots = 256
    queues = connect(bench.redis.url, 0, slots)
    ten = [Message(NEW, slot_of(f"p{n}", slots), _task(n)) for n in range(10)]
    found = {"publish 10 messages": _timed(lambda: queues.slot_queues.publish(ten), 1000)}
    found["publish 1 message"] = _timed(lambda: queues.slot_queues.publish(ten[:1]), 1000)
    queues.slot_queues.take(range(slots))

    def read_and_acknowledge() -> None:
        queues.slot_queues.acknowledge(queues.slot_queues.read(NEW, 1000))

    found["read and acknowledge 1000"] = _timed(read_and_acknowledge, 10)
    with redis.Redis.from_url(bench.redis.url) as client:
        client.rpush(NEW.value, *(msgpack.packb(_task(number)) for number in range(TASKS)))
    found["forward 1000 of the inbox"] = _timed(lambda: queues.inbox.forward(1000), 20)
    queues.close()
    return found


def _empty(bench: Bench) -> None:
    with redis.Redis.from_url(bench.redis.url) as client:
        client.flushall()
