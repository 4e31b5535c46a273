"""Watch over the cluster's protocol: what this process goes by, and writes its records in."""

import logging
import threading

from pyspider_zk.cluster.protocols import CLOSED, LOWEST, SPOKEN, refusal
from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import Mismatch, Refused
from pyspider_zk.zookeeper.connection import Connection, Watch

logger = logging.getLogger(__name__)


class ProtocolWatch:
    """The protocol in use, as last read; the lowest that this version speaks before that.

    What differs between two protocols is written in the form of this one, and read in the forms of
    all that this version speaks: others learn of a raise sooner or later.

    Threads: one thread calls ``refresh``; ``current`` may be read from any.

    Attributes:
        current: the protocol to go by.
    """

    def __init__(self, connection: Connection, tree: Tree, reader: Reader, wake: Watch) -> None:
        self._connection = connection
        self._tree = tree
        self._reader = reader
        self._wake = wake
        self._stale = threading.Event()
        self._stale.set()
        self.current = LOWEST

    def refresh(self) -> None:
        """Read the protocol if it may have changed; what is missing or unreadable changes nothing.

        Raises:
            Mismatch: this version does not speak it, so this process must end.
            Unavailable: ZooKeeper does not answer; call again.
        """
        if not self._stale.is_set():
            return
        self._stale.clear()  # before reading, so that no later change is lost
        try:
            found = self._connection.find(self._tree.meta, self._on_change)
        except Refused as error:
            logger.warning("the protocol cannot be read, %d goes on: %s", self.current, error)
            return
        except BaseException:
            self._stale.set()
            raise
        meta = self._reader.value(self._tree.meta, found, Meta.decode)
        if meta is None or meta.protocol == CLOSED:
            return
        fault = refusal(meta.protocol, self._tree.root, SPOKEN)
        if fault:
            raise Mismatch(fault)
        self.current = meta.protocol

    def _on_change(self, event: object) -> None:
        self._stale.set()
        self._wake(event)
