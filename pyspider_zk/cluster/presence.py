"""Presence of the processes that own nothing: processors, fetchers, result workers, web UIs."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, Self

from pyspider_zk.cluster.meta import ensure_meta
from pyspider_zk.cluster.reader import ProtocolWatch
from pyspider_zk.cluster.records import Component, ComponentKind, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch, SessionLost, Unavailable
from pyspider_zk.loop import Loop
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.ephemeral import Ephemeral
from pyspider_zk.zookeeper.errors import OUTDATED
from pyspider_zk.zookeeper.waiting import Waiter

logger = logging.getLogger(__name__)

REPORTING = 10.0
"""Seconds between two reports of what a component does; one that says anything new is a write.

So often it also looks whether its node is there."""

PATIENCE = 10.0
"""Seconds that a component waits at its start while ZooKeeper refuses to register it."""

Report = Callable[[], Mapping[str, Any]]
"""Returns fields of ``Component`` that change."""


class Presence:
    """Context manager that keeps one component's ephemeral node in existence.

    A component begins once it stands, since by then others know whose what it takes is. It works
    on while ZooKeeper is unavailable, and registers again in the next session or where its node was
    deleted, unless the cluster is closed, or has other values by now.

    Threads: a daemon thread of its own maintains the node.

    Args:
        report: is asked every ``REPORTING`` seconds, by that thread; None: nothing changes.

    Attributes:
        connection: its connection, for other readers in this process.
    """

    def __init__(
        self,
        settings: Settings,
        kind: ComponentKind,
        record: Component,
        report: Report | None = None,
    ) -> None:
        self.connection = Connection(settings)
        self._tree = Tree(settings.root)
        meta = Meta(settings.slots)
        parent = f"{self._tree.components}/{kind}"
        self._record = record
        self._report = report
        self._node = Ephemeral(
            *(self.connection, parent, record.encode()),
            before=lambda: ensure_meta(self.connection, self._tree, meta),
        )
        self._lost, self._tells_until = "", float("-inf")
        self._interval = settings.renewal
        self._loop = Loop("presence", self._turn)
        self._protocol = ProtocolWatch(self.connection, self._tree, self._loop.wake)

    @property
    def protocol(self) -> int:
        """The protocol to write by: the one in use, as far as this process knows."""
        return self._protocol.current

    def tell_lost(self, what: str, seconds: float) -> None:
        """Let everybody know for so many seconds what the process before this one was lost to."""
        self._lost, self._tells_until = what, monotonic() + seconds
        self._loop.wake()

    def __enter__(self) -> Self:
        """Connect, check the cluster's values, register. Blocks for some seconds at most.

        Raises:
            Unavailable: no ZooKeeper at the addresses, or it refuses to register us.
            Mismatch: the cluster has other values.
        """
        self.connection.start()
        try:
            self._register()
        except BaseException:
            self.connection.stop()
            raise
        self.connection.on_change(self._loop.wake)
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.stop()
        self.connection.stop()

    def _register(self) -> None:
        waiter = Waiter()

        def stands() -> bool:
            try:
                self._node.stand()
            except SessionLost as error:
                raise Unavailable(str(error)) from error
            except Unavailable as error:
                if waiter.fault is None:
                    logger.warning("waits until it is registered: %s", error)
                raise
            return True

        if not waiter.until(stands, PATIENCE) and waiter.fault:
            raise waiter.fault

    def _turn(self) -> float | None:
        try:
            self.connection.require()
            self._protocol.refresh()
            left = self._say()
            self._node.stand()
        except Mismatch as error:
            logger.error("presence is not registered, stop this process: %s", error)
            return None
        except (Unavailable, SessionLost, *OUTDATED) as error:
            logger.info("presence is not registered yet: %r", error)
            return self._interval
        return left

    def _say(self) -> float:
        """Bring up to date what the node says; return for how many seconds."""
        told = dict(self._report()) if self._report else {}
        if (left := self._tells_until - monotonic()) > 0:
            told["lost"] = self._lost
        self._node.say(replace(self._record, **told).encode())
        return min(REPORTING, left) if left > 0 else REPORTING
