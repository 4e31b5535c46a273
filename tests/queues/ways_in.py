"""Every way in which the product uses a message queue in Redis."""

from contextlib import closing

from pyspider.message_queue import connect_message_queue

from pyspider_zk.queues.api import Message
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.consumer import Consumer
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.queue_sizes import QueueSizes
from pyspider_zk.queues.resilient import ResilientQueue, log


def stock(where: str) -> tuple[ResilientQueue, Consumer]:
    """Return the two ends of one of pyspider's queues, as the components use it."""
    inner, back_off = connect_message_queue("fetcher2processor", where), BackOff(log, "it waits")
    return ResilientQueue(inner, back_off), Consumer(inner, back_off, lambda _: None, log, "ours")


def works(where: str) -> bool:
    """Use every part of the message queue."""
    message = Message(QueueKind.NEWTASK, 3, {"project": "p"})
    with closing(connect(where, 10, 8)) as queues:
        queues.slot_queues.take([3])
        queues.slot_queues.publish([message])
        (delivery,) = queues.slot_queues.read(QueueKind.NEWTASK, 1)
        queues.slot_queues.reject(delivery, "no task")
        queues.inbox.forward(1)
        queues.records.save_many({3: {"a": 1}})
        queues.records.drop_many([3])
        assert queues.slot_queues.dead() == 1
        assert queues.slot_queues.discard([queues.slot_queues.dead_letters(1)[0].tag]) == 1
        own, reading = stock(where)
        own.put_nowait("body")
        assert QueueSizes(queues).read()["fetcher2processor"] == 1
    return bool(reading.get() == "body")
