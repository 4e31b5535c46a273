"""Read, apply, then acknowledge: how messages of slot queues become scheduler state.

A message that cannot be applied yet, or whose application failed, stays unacknowledged in the
queue and is tried again in the next round; should this member die, its successor reads it anew.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pyspider_zk.core.names import Kind
from pyspider_zk.errors import BadMessage, GateClosed, Unavailable
from pyspider_zk.queues.api import Delivery, SlotQueues

logger = logging.getLogger("scheduler")

PAUSES = (10, 40, 160, 640)
"""How many rounds to wait after each failure of a message; after one more it is given up.

With rounds of 0.1 s that is a minute and a half: a database that is away for a while, which fails
every message alike, must not turn them all into dead letters.
"""


@dataclass
class Entry:
    """A delivery and what is left to do of it.

    Attributes:
        rest: for new tasks, those that are not applied yet; None before the first try.
        fault: what is wrong with those that are no tasks.
        pause: rounds to wait before the next try.
    """

    delivery: Delivery
    rest: list[Any] | None = None
    fault: str = ""
    failures: int = 0
    pause: int = 0


Apply = Callable[[Entry], bool]
"""Applies an entry; returns whether it is done, False if it must wait for a later round."""


class Intake:
    """The unacknowledged messages of one member.

    Threads: the scheduler loop only.

    Args:
        pauses: see ``PAUSES``.
    """

    def __init__(self, queues: SlotQueues, pauses: Sequence[int] = PAUSES) -> None:
        self._queues = queues
        self._pauses = pauses
        self._waiting: dict[Kind, list[Entry]] = {kind: [] for kind in Kind}

    def take(self, slots: Collection[int]) -> None:
        """Read these slots from now on, beginning with what a former owner left behind."""
        self._queues.take(slots)

    def drop(self, slots: Collection[int]) -> None:
        """Read these slots no more; what is not acknowledged is left to the next owner."""
        self._queues.drop(slots)
        for kind, entries in self._waiting.items():
            self._waiting[kind] = [entry for entry in entries if entry.delivery.slot not in slots]

    def run(self, kind: Kind, limit: int, apply: Apply) -> int:
        """Apply what waits and what is new, ``limit`` messages at most; return how many.

        Raises:
            GateClosed: from ``apply``; what was done before is acknowledged all the same.
            Unavailable: the message queue is away.
        """
        entries = self._waiting[kind]
        entries += map(Entry, self._queues.read(kind, max(0, limit - len(entries))))
        waiting: list[Entry] = []
        self._waiting[kind] = waiting
        done: list[Delivery] = []
        try:
            while entries:
                entry = entries.pop(0)
                try:
                    finished = self._try(entry, apply)
                except (GateClosed, Unavailable):
                    entries.insert(0, entry)
                    raise
                if finished:
                    done.append(entry.delivery)
                else:
                    waiting.append(entry)
        finally:
            waiting += entries
            self._queues.acknowledge(done)
        return len(done)

    def _try(self, entry: Entry, apply: Apply) -> bool:
        if entry.pause:
            entry.pause -= 1
            return False
        try:
            return apply(entry)
        except (GateClosed, Unavailable):
            raise
        except BadMessage as error:
            return self._bury(entry, str(error))
        except Exception as error:
            entry.failures += 1
            logger.exception(
                "%s:%d, try %d", entry.delivery.kind, entry.delivery.slot, entry.failures
            )
            if entry.failures > len(self._pauses):
                return self._bury(entry, f"failed {entry.failures} times: {error!r}")
            entry.pause = self._pauses[entry.failures - 1]
            return False

    def _bury(self, entry: Entry, reason: str) -> bool:
        """Move a message to the dead letters; one that finds no room there holds up no other.

        A Redis that is out of memory takes no dead letter until other messages are acknowledged.
        """
        try:
            self._queues.bury(entry.delivery, reason)
        except Unavailable:
            return False
        return True
