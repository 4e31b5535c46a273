"""Overview of a cluster and its queues at one moment, for ``status`` and the view of ``up``."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyspider.message_queue import connect_message_queue

from pyspider_zk.cli.target import ClusterTarget
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.resilient import ResilientQueue

logger = logging.getLogger(__name__)

PATIENCE = 5.0  # seconds for ZooKeeper's first response
DEAD_LETTERS = "dead_letters"
STOCK_QUEUES = ("scheduler2fetcher", "fetcher2processor", "processor2result")
"""The queues that stay pyspider's own."""


@dataclass(frozen=True)
class Overview:
    """The cluster and its queues at one moment.

    Attributes:
        cluster: the state in ZooKeeper.
        queues: messages per queue, a kind of slot queue counting as one; empty if unknown.
        fault: why the queues are unknown.
    """

    cluster: Cluster
    queues: Mapping[str, int]
    fault: ClusterError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the form that ``status --json`` prints."""
        return {**self.cluster.as_dict(), "queues": dict(self.queues) or None}


class Observer:
    """Reads a cluster repeatedly, over connections that stay open. One thread.

    Raises:
        ConfigError: a cluster cannot use this message queue.
    """

    def __init__(self, target: ClusterTarget) -> None:
        self._directory = Directory(target.settings)
        url = target.message_queue
        self._lengths = QueueCounts(url, target.settings.slots) if url else None

    def __enter__(self) -> Self:
        """Connect to ZooKeeper.

        Raises:
            Unavailable: nothing answers.
        """
        self._directory.start(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.stop()
        if self._lengths is not None:
            self._lengths.close()

    def read(self) -> Overview:
        """Return the cluster, also while the message queue is unavailable.

        Raises:
            Unavailable: ZooKeeper does not answer.
            Mismatch: there is no cluster.
        """
        cluster = self._directory.read()
        if self._lengths is None:
            return Overview(cluster, {})
        try:
            return Overview(cluster, self._lengths.read())
        except ClusterError as fault:
            return Overview(cluster, {}, fault)


class QueueCounts:
    """Counts the messages behind a message queue.

    Raises:
        ConfigError: a cluster cannot use it.
    """

    def __init__(self, url: str, slots: int) -> None:
        self._ours = connect(url, 0, slots)
        # pyspider's queues may connect when they are made, so not before ours got an answer.
        self._url = url
        self._stock: dict[str, ResilientQueue] = {}

    def read(self) -> dict[str, int]:
        """Return the messages per queue, a kind of slot queue counting as one.

        Raises:
            Unavailable: the message queue does not answer.
        """
        inbox = self._ours.inbox.lengths()
        slots = self._ours.slot_queues.lengths()
        lengths = {kind.value: inbox[kind] + slots[kind] for kind in slots}
        return {**lengths, **self.stock(), DEAD_LETTERS: self._ours.slot_queues.dead()}

    def stock(self) -> dict[str, int]:
        """Return the messages in the queues that stay pyspider's own; raises as ``read``."""
        if not self._stock:
            back_off = BackOff(logger, "its lengths are unknown")
            self._stock = {
                name: ResilientQueue(connect_message_queue(name, self._url), back_off)
                for name in STOCK_QUEUES
            }
        return {name: queue.qsize() for name, queue in self._stock.items()}

    def close(self) -> None:
        """Close the connections."""
        self._ours.close()
