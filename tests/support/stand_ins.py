"""Helpers of the tests of components."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Delivery, Message, Queues, SlotQueues
from pyspider_zk.queues.names import QueueKind
from tests.support.memory_queues import MemoryBroker, MemorySlotQueues

DEADLINE = 60.0  # seconds that no test needs

LOCKER = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def locked(file: Path, seconds: float = 600) -> Iterator[None]:
    """Let another process lock a database file, until the end of the block at the latest."""
    command = [sys.executable, "-c", LOCKER, str(file), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            process.kill()


class FaultySlotQueues(MemorySlotQueues):
    """Slot queues in memory that can go away, and that remember each publish.

    Attributes:
        away: whether every publish fails.
        refused: set by each publish that fails.
        published: the messages of each publish that went through.
    """

    def __init__(self, broker: MemoryBroker, limit: int = 0) -> None:
        super().__init__(broker, limit)
        self.away = False
        self._left: int | None = None
        self.refused = threading.Event()
        self.asked_full = threading.Event()
        self.published: list[list[Message]] = []

    @property
    def everything(self) -> list[Message]:
        """All messages that went through, in order."""
        return [message for messages in self.published for message in messages]

    def away_after(self, publishes: int) -> None:
        """Go away after so many publishes more."""
        self._left = publishes

    def publish(self, messages: Sequence[Message]) -> None:
        if self._left == 0:
            self.away, self._left = True, None
        if self.away:
            self.refused.set()
            raise Unavailable("the message queue is away")
        super().publish(messages)
        self.published.append(list(messages))
        if self._left is not None:
            self._left -= 1

    def full(self, kind: QueueKind, slot: int) -> bool:
        found = super().full(kind, slot)
        if found:
            self.asked_full.set()
        return found


def faulty(broker: MemoryBroker, slots: int, limit: int = 0) -> tuple[Queues, FaultySlotQueues]:
    """Return the queues of one more process, and those of them that can go away."""
    whole = broker.queues(slots, limit)
    slot_queues = FaultySlotQueues(broker, limit)
    return replace(whole, slot_queues=slot_queues), slot_queues


def read_all(queues: SlotQueues, slots: int) -> list[Delivery]:
    """Return all messages of all slots, new tasks first; they stay in the queues."""
    queues.take(range(slots))
    return [delivery for kind in QueueKind for delivery in queues.read(kind, 10_000)]


@contextmanager
def running(
    function: Callable[..., Any], *args: Any, raises: type[BaseException] | None = None
) -> Iterator[threading.Thread]:
    """Run a function on a thread; after the block it must have ended, and as told."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function(*args)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=f"test: {function}", daemon=True)
    thread.start()
    yield thread
    thread.join(DEADLINE)
    assert not thread.is_alive(), f"{function} did not end"
    if raises is None and errors:
        raise errors[0]
    assert [type(error) for error in errors] == ([] if raises is None else [raises])
