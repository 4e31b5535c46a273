"""Upgrade: an operator raises the protocol that a cluster goes by, once all who run speak it."""

import time
from collections.abc import Callable
from typing import NamedTuple

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.protocols import (
    CLOSED,
    FIRST,
    HIGHEST,
    Protocols,
    highest_common,
    holding_back,
)
from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.records import Component, ComponentKind, Member, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Conflict, Mismatch
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError
from pyspider_zk.zookeeper.steps import Write


class Raised(NamedTuple):
    """The protocol before and after; the same if all who run already go by the highest."""

    before: int
    after: int


class Upgrade:
    """Raises the protocol in use; with its event, or not at all.

    Threads: one; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._tree = tree
        self._reader = Reader(tree, connection.unreadable)
        self._events = EventLog(connection, tree)

    def raise_protocol(self, who: str) -> Raised:
        """Raise the protocol to the highest that this version and all who run speak.

        A process that is away meanwhile and does not speak it is refused when it comes back.

        Args:
            who: the user who asked for it.

        Raises:
            Conflict: somebody who runs holds it back, the cluster is closed, its meta record is
                damaged, or somebody else wrote it meanwhile.
            Mismatch: there is no cluster.
        """
        meta, version = self._meta()
        spoken = {**self.spoken(), "this command": (FIRST, HIGHEST)}
        after = highest_common(meta.protocol, spoken)
        if after == meta.protocol:
            self._check_nobody_holds_back(meta.protocol, spoken)
            return Raised(meta.protocol, after)
        self._write(meta, after, version, who)
        return Raised(meta.protocol, after)

    def spoken(self) -> dict[str, Protocols]:
        """Return what those speak who run; a record that cannot be read speaks the first."""
        tree = self._tree
        found = {
            f"member {name}": self._of(tree.member(name), Member.decode) for name in self._in("")
        }
        for kind in ComponentKind:
            for name in self._in(kind):
                found[f"{kind} {name}"] = self._of(tree.component(kind, name), Component.decode)
        return found

    def _in(self, kind: str) -> list[str]:
        parent = f"{self._tree.components}/{kind}" if kind else self._tree.members
        return self._connection.children(parent)

    def _of(self, path: str, decode: Callable[[bytes], Member | Component]) -> Protocols:
        found = self._reader.value(path, self._connection.find(path), decode)
        return (FIRST, FIRST) if found is None else found.protocols

    def _meta(self) -> tuple[Meta, int]:
        found = self._connection.find(self._tree.meta)
        if found is None:
            raise Mismatch(f"there is no cluster at {self._tree.root}: start a scheduler first")
        try:
            meta = Meta.decode(found[0])
        except BadMessage as error:
            raise Conflict(f"{error}: restart a scheduler, which writes it anew") from error
        if meta.protocol == CLOSED:
            raise Conflict(f"the cluster at {self._tree.root} is closed: complete what closed it")
        return meta, found[1]

    def _check_nobody_holds_back(self, in_use: int, spoken: dict[str, Protocols]) -> None:
        """Check that nobody who runs speaks a higher protocol that others do not.

        Raises:
            Conflict: naming those who do not.
        """
        highest = max(its[1] for its in spoken.values())
        if highest <= in_use:
            return
        old = holding_back(highest, spoken)
        raise Conflict(
            f"the cluster goes by protocol {in_use}, and {highest} is spoken by some only;"
            f" {len(old)} do not speak it, such as {old[0]}: replace them by the newer version"
        )

    def _write(self, meta: Meta, after: int, version: int, who: str) -> None:
        text = f"the protocol was raised from {meta.protocol} to {after}"
        event = Event(EventKind.UPGRADE, text, time.time(), who)
        self._connection.ensure([self._tree.events])
        write = Write(self._tree.meta, Meta(meta.slots, after).encode(), version)
        try:
            self._connection.multi(write, self._events.step(event))
        except BadVersionError:
            raise Conflict("somebody else changed the meta record: try again") from None
