"""Outbox of a processor: sends all of some tasks' messages together, in the safe order."""

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any, Self

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message, SlotQueues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.codec import size_of
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.packs import failed_pack
from pyspider_zk.tasks.writes import batches
from pyspider_zk.workers.work_meter import WorkMeter

logger = logging.getLogger("processor")

MOST_MESSAGES = 1000
"""Messages of one call of the message queue: it must be answered in time, or all are sent again."""

MOST_BYTES = 4 * 2**20
"""Bytes of the messages of one call, but for one that is larger by itself."""


class Outbox:
    """Collector of each task's messages in a ``with`` block, until they are sent.

    The new tasks go before the status packs: pyspider sends the pack first, and a processor that
    dies in between has lost the follow-ups for good. They leave in one transaction, or in parts if
    they are too many for one: a call that is not answered in time is repeated, and so would be all
    of a large page, for ever. A processor that dies between two parts has its page run again, and
    links that are known already are passed over. A block within the block, a message that a
    script sends to a project, belongs to the outer one. If the block fails nothing of it is sent
    and the task is tried again after pyspider's time-out.

    A task waits for each of the slots it has messages for, and what comes after it waits with it:
    a full slot of a dead owner stalls a processor that has a message for it until the next owner
    reads, which is the time of a takeover, and no longer. A living owner takes messages that must
    wait out of the queue; beyond its bound for projects in quarantine it does not, and says so.

    Threads: one.

    Args:
        back_off: how the message queue is waited for while it is unavailable or a slot is full.
    """

    def __init__(self, queues: SlotQueues, slots: int, back_off: BackOff) -> None:
        self._queues = queues
        self._slots = slots
        self._back_off = back_off
        self._depth = 0
        self._collected, self._ready = _nothing(), _nothing()

    @property
    def size(self) -> int:
        """The number of messages that are to be sent."""
        return sum(map(len, self._ready.values()))

    def queue(self, kind: QueueKind) -> "OutboxQueue":
        """Return the queue object that pyspider's processor puts messages on."""
        return OutboxQueue(self, kind)

    def add(self, kind: QueueKind, body: Any) -> None:
        """Collect a message; of a list of tasks, one for each."""
        self._collected[kind] += [
            Message(kind, slot_of(task["project"], self._slots), task)
            for task in (body if isinstance(body, list) else [body])
        ]

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        collected, self._collected = self._collected, _nothing()
        if error is None:
            for each, messages in collected.items():
                self._ready[each] += messages

    def send(self) -> None:
        """Send what was collected, however long the message queue is unavailable or full.

        Raises:
            Unavailable: it still is, and this process ends; what was not sent stays.
        """
        while part := self._first_part():
            self._publish(part)
            for kind, count in Counter(message.kind for message in part).items():
                del self._ready[kind][:count]

    def _first_part(self) -> list[Message]:
        """Return the first messages, as many as one call may have."""
        messages = chain(self._ready[QueueKind.NEWTASK], self._ready[QueueKind.STATUS])
        return next(batches(messages, _size, MOST_MESSAGES, MOST_BYTES), [])

    def _publish(self, messages: list[Message]) -> None:
        """Publish what can be encoded; the rest is narrowed down to the tasks at fault."""
        try:
            self._deliver(messages)
        except BadMessage as error:
            if len(messages) == 1:
                logger.error("a message cannot be sent: %s", error)
                self._replace(messages[0], error)
                return
            middle = len(messages) // 2
            for half in (messages[:middle], messages[middle:]):
                self._publish(half)

    def _replace(self, message: Message, error: BadMessage) -> None:
        """Report a task as failed whose status pack cannot be sent: else it is fetched forever."""
        if message.kind is QueueKind.STATUS and isinstance(message.body, dict):
            with suppress(BadMessage):  # its names cannot be sent either, and it was logged
                self._deliver([replace(message, body=failed_pack(message.body, error))])

    def _deliver(self, messages: list[Message]) -> None:
        """Publish, however long that takes: the tasks are done already.

        Raises:
            Unavailable: it still is, and this process ends.
        """
        while not self._sent(messages):
            self._back_off.wait()

    def _sent(self, messages: list[Message]) -> bool:
        """Publish if there is room, because ``publish`` itself would wait forever."""
        queues = {(message.kind, message.slot) for message in messages}
        with suppress(Unavailable), self._back_off.watching():
            if not any(self._queues.full(kind, slot) for kind, slot in queues):
                self._queues.publish(messages)
                return True
        return False


def _size(message: Message) -> int:
    return size_of(message.body)


def _nothing() -> dict[QueueKind, list[Message]]:
    return {kind: [] for kind in QueueKind}


class OutboxQueue:
    """The one method of a queue that pyspider's processor uses."""

    def __init__(self, outbox: Outbox, kind: QueueKind) -> None:
        self._outbox = outbox
        self._kind = kind

    def put(self, body: Any) -> None:
        """Collect a message."""
        with self._outbox:
            self._outbox.add(self._kind, body)


class MeteredPacks(OutboxQueue):
    """Queue for status packs, which counts what they tell of their tasks."""

    def __init__(self, outbox: Outbox, meter: WorkMeter) -> None:
        super().__init__(outbox, QueueKind.STATUS)
        self._meter = meter

    def put(self, body: Any) -> None:
        """Collect a pack of pyspider's processor, or of ours; what is no text becomes some."""
        processed = body["track"]["process"]
        for name in ("logs", "exception"):
            if isinstance(text := processed.get(name), str):  # a page may have half a surrogate
                processed[name] = text.encode("utf-8", "backslashreplace").decode()
        self._meter.count(processed["time"], ok=processed["ok"])
        super().put(body)
