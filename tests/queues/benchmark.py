"""Measures the slot queues in a Redis that may be emptied.

Usage: ``python tests/queues/benchmark.py redis://127.0.0.1:6379/9``
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import msgpack
import redis

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind

NEW = QueueKind.NEWTASK
TASKS = 20_000
TASK = {"taskid": "0" * 32, "url": "http://localhost/a/page", "schedule": {"age": 3600}}


def measure(name: str, work: Callable[[], object], count: int = 1) -> None:
    """Print how long one of `count` runs takes."""
    begin = time.perf_counter()
    for _ in range(count):
        work()
    taken = (time.perf_counter() - begin) / count
    sys.stdout.write(f"{name:<58}{taken * 1000:10.3f} ms\n")


def task(number: int, projects: int = 1000) -> dict[str, Any]:
    """Return one of the tasks of many projects."""
    return TASK | {"project": f"p{number % projects}", "process": {"callback": str(number)}}


def idle(url: str, slots: int) -> None:
    """Measure what slots without messages cost."""
    queues = connect(url, 0, slots).slot_queues
    measure(f"take {slots} slots", lambda: queues.take(range(slots)))
    measure(f"read {slots} slots, all empty", lambda: queues.read(NEW, 1000), 100)
    queues.publish([Message(NEW, 7 % slots, task(0))])
    measure(f"read {slots} slots, one with something", lambda: queues.read(NEW, 1000), 100)
    queues.publish([Message(NEW, slot, task(slot)) for slot in range(slots)])
    measure(f"lengths, {slots} slots with something", queues.lengths, 5)
    measure(f"first read of 1000 of {slots} slots", lambda: queues.read(NEW, 1000))
    queues.close()


def flow(url: str, slots: int) -> None:
    """Measure messages on their way."""
    queues = connect(url, 0, slots)
    one = [Message(NEW, slot_of(f"p{n}", slots), task(n)) for n in range(10)]
    measure("publish 10 messages", lambda: queues.slot_queues.publish(one), 1000)
    measure("publish 1 message", lambda: queues.slot_queues.publish(one[:1]), 1000)
    queues.slot_queues.take(range(slots))

    def read_and_acknowledge() -> None:
        queues.slot_queues.acknowledge(queues.slot_queues.read(NEW, 1000))

    measure("read and acknowledge 1000 messages", read_and_acknowledge, 10)
    with redis.Redis.from_url(url) as client:
        client.rpush(NEW.value, *(msgpack.packb(task(number)) for number in range(TASKS)))
    measure("forward 1000 messages of the inbox", lambda: queues.inbox.forward(1000), 20)
    queues.close()


def main(url: str) -> None:
    """Empty the database before each part."""
    with redis.Redis.from_url(url) as client:
        for slots in (256, 512, 16384):
            client.flushdb()
            idle(url, slots)
        client.flushdb()
        flow(url, 256)
        client.flushdb()


if __name__ == "__main__":
    main(sys.argv[1])
