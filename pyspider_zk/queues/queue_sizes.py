"""Queue sizes: how many messages wait, and for how long, in the cluster's queues and pyspider's."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.queues.api import Queues, SlotBacklog
from pyspider_zk.queues.names import SlotQueue
from pyspider_zk.zookeeper.errors import OUTDATED

DEAD_LETTERS = "dead_letters"
PARKED = "parked"

PARKED_LIMIT = 100_000
"""How many messages may be parked for a slot; others stay in the slot queue, which fills."""

T = TypeVar("T")


class Waiting(NamedTuple):
    """What waits in the queues and beside them; None: it did not answer.

    Attributes:
        lengths: messages per queue, and dead letters.
        backlog: slot queues that are not empty.
        parked: slots for which messages are parked.
    """

    lengths: Mapping[str, int] | None = None
    backlog: Mapping[SlotQueue, SlotBacklog] | None = None
    parked: Mapping[int, SlotBacklog] | None = None

    @property
    def dead(self) -> int | None:
        """How many dead letters there are."""
        return None if self.lengths is None else self.lengths[DEAD_LETTERS]

    @property
    def full(self) -> tuple[int, ...]:
        """The slots for which no more messages can be parked."""
        parked = self.parked or {}
        return tuple(slot for slot, each in parked.items() if each.length >= PARKED_LIMIT)

    @property
    def messages(self) -> dict[str, int]:
        """The messages per queue, those that are parked among them."""
        lengths = {name: n for name, n in (self.lengths or {}).items() if name != DEAD_LETTERS}
        parked = None if self.parked is None else sum(each.length for each in self.parked.values())
        return lengths if parked is None else {**lengths, PARKED: parked}

    @property
    def oldest(self) -> dict[str, float]:
        """How long the oldest message has waited, of what is not empty."""
        ages: dict[str, float] = {}
        for (kind, _), each in (self.backlog or {}).items():
            ages[kind.value] = max(each.age, ages.get(kind.value, 0.0))
        if self.parked:
            ages[PARKED] = max(each.age for each in self.parked.values())
        return ages


class QueueSizes:
    """Counter of messages. Threads: any."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def read(self) -> dict[str, int]:
        """Return the messages per queue, a kind of slot queue counting as one, and the dead.

        Raises:
            Unavailable: the message queue does not answer.
        """
        inbox = self._queues.inbox.lengths()
        slots = self._queues.slot_queues.lengths()
        ours = {kind.value: inbox[kind] + slots[kind] for kind in slots}
        work = self._queues.work.lengths()
        return {**ours, **work, DEAD_LETTERS: self._queues.slot_queues.dead()}

    def look(self, missing: list[ClusterError]) -> Waiting:
        """Return all that waits; add what does not answer to the list.

        A message queue that is silent is asked once.
        """
        lengths = answer_of(self.read, missing)
        if lengths is None:
            return Waiting()
        backlog = answer_of(self._queues.slot_queues.backlog, missing)
        return Waiting(lengths, backlog, answer_of(self._queues.parking_lot.waiting, missing))


def answer_of(ask: Callable[[], T], missing: list[ClusterError]) -> T | None:
    """Return what is answered; if there is no answer, add the reason to the list."""
    try:
        return ask()
    except ClusterError as error:
        missing.append(error)
    except OUTDATED as error:
        name = type(error).__name__
        missing.append(Unavailable(f"ZooKeeper has changed meanwhile ({name})"))
    return None
