"""Queue sizes: how many messages wait, in the cluster's queues and in pyspider's own."""

import logging
from collections.abc import Mapping
from typing import Any

from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.resilient import ResilientQueue

logger = logging.getLogger(__name__)

DEAD_LETTERS = "dead_letters"


class QueueSizes:
    """Counter of messages. One thread.

    Args:
        queues: the cluster's.
        stock: pyspider's own, by name; those that the cluster's replace are left out.
    """

    def __init__(self, queues: Queues, stock: Mapping[str, Any]) -> None:
        self._queues = queues
        self._stock = {name: each for name, each in stock.items() if name not in set(QueueKind)}
        self._patient: dict[str, ResilientQueue] = {}

    def read(self) -> dict[str, int]:
        """Return the messages per queue, a kind of slot queue counting as one, and the dead.

        Raises:
            Unavailable: the message queue does not answer.
        """
        inbox = self._queues.inbox.lengths()
        slots = self._queues.slot_queues.lengths()
        ours = {kind.value: inbox[kind] + slots[kind] for kind in slots}
        stock = {name: each.qsize() for name, each in self._tamed().items()}
        return {**ours, **stock, DEAD_LETTERS: self._queues.slot_queues.dead()}

    def _tamed(self) -> Mapping[str, ResilientQueue]:
        """Return pyspider's queues; created late, because creating them may connect."""
        if not self._patient:
            back_off = BackOff(logger, "its lengths are unknown")
            self._patient = {
                name: ResilientQueue(each, back_off) for name, each in self._stock.items() if each
            }
        return self._patient
