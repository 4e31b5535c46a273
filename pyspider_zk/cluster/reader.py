"""Readers of znodes that anybody may have written: what cannot be read is passed over."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Generic

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.protocols import CLOSED, LOWEST, SPOKEN, refusal
from pyspider_zk.cluster.records import (
    CONSUMING,
    Assignment,
    Component,
    ComponentKind,
    LeaseTerms,
    Member,
    Meta,
    decode_terms,
)
from pyspider_zk.cluster.tree import Tree, candidate_of
from pyspider_zk.errors import BadMessage, Mismatch, Refused
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.unreadable import Found, Unreadable, Value

logger = logging.getLogger(__name__)


class Reader:
    """Parser of the state in ZooKeeper; the paths that it skips are noted as unreadable.

    Threads: any; nothing blocks.
    """

    def __init__(self, tree: Tree, unreadable: Unreadable) -> None:
        self._tree = tree
        self._unreadable = unreadable

    def values(
        self,
        path_of: Callable[[MemberId], str],
        found: Mapping[MemberId, Found | None],
        decode: Callable[[bytes], Value],
    ) -> dict[MemberId, Value]:
        """Return the values of the members' znodes that are there and readable."""
        values = {
            each: self._unreadable.decoded(path_of(each), data, decode)
            for each, data in found.items()
        }
        return {member: value for member, value in values.items() if value is not None}

    def terms(self, found: Mapping[MemberId, Found | None]) -> dict[MemberId, LeaseTerms]:
        """Return the terms of the readable leases."""
        return self.values(self._tree.lease, found, decode_terms)

    def members(self, parent: str, names: Collection[str]) -> list[MemberId]:
        """Return the members that znodes are named after; other names are skipped."""
        return list(self._unreadable.parsed(parent, names, MemberId.parse).values())

    def candidates(self, names: Collection[str]) -> list[str]:
        """Return the valid election nodes; other names are skipped."""
        return list(self._unreadable.parsed(self._tree.election, names, candidate_of))


def read_members(connection: Connection, tree: Tree) -> dict[MemberId, Member]:
    """Return the members whose ephemeral node exists and can be read."""
    reader = Reader(tree, connection.unreadable)
    members = reader.members(tree.members, connection.children(tree.members))
    found = connection.find_all([tree.member(member) for member in members])
    return reader.values(tree.member, dict(zip(members, found, strict=True)), Member.decode)


def read_components(
    connection: Connection, tree: Tree, kind: ComponentKind
) -> dict[str, Component]:
    """Return the components of a kind whose ephemeral node exists and can be read, by its name."""
    parent = f"{tree.components}/{kind}"
    names = connection.unreadable.parsed(parent, connection.children(parent), str)
    found = connection.find_all([f"{parent}/{name}" for name in names])
    records = {
        name: connection.unreadable.decoded(f"{parent}/{name}", data, Component.decode)
        for name, data in zip(names, found, strict=True)
    }
    return {name: record for name, record in records.items() if record is not None}


def read_consumers(connection: Connection, tree: Tree) -> set[str]:
    """Return the names under which those who are registered take messages."""
    found = [read_components(connection, tree, kind) for kind in CONSUMING]
    return {record.consumer for records in found for record in records.values()}


class Table:
    """The assignment as this process reads it; remembers the last readable one.

    Attributes:
        known: that table, and the newest version at which it is known to hold: its own, or that
            of an unreadable write right after it.
        is_readable: whether the newest table can be read.

    Threads: one thread calls the methods.
    """

    def __init__(self, path: str, slots: int, unreadable: Unreadable) -> None:
        self._path = path
        self._unreadable = unreadable
        self.slots = slots
        self.known: tuple[Assignment, int] | None = None
        self.is_readable = True

    def take(self, data: bytes, version: int) -> Assignment | None:
        """Return the current table, None if it cannot be read."""
        try:
            table = Assignment.decode(data, self.slots)
        except BadMessage as error:
            self._unreadable.note(self._path, error)
            if self.known is not None and self.known[1] + 1 == version:
                self.known = (self.known[0], version)
            self.is_readable = False
            return None
        self.wrote(table, version)
        return table

    def wrote(self, table: Assignment, version: int) -> None:
        """Remember a table and its version."""
        self._unreadable.forget(self._path)
        self.known, self.is_readable = (table, version), True


class ZnodeWatch(Generic[Value]):
    """What this process knows of a znode, which it reads again only if that may have changed.

    Threads: one thread calls ``refresh``; ``current`` may be read from any.

    Attributes:
        current: what to go by.
    """

    def __init__(self, connection: Connection, tree: Tree, wake: Watch, current: Value) -> None:
        self._connection = connection
        self._tree = tree
        self._wake = wake
        self._stale = threading.Event()
        self._stale.set()
        self.current = current

    def refresh(self) -> bool:
        """Read it if it may have changed; return whether it has.

        Raises:
            Unavailable: ZooKeeper does not answer; call again.
        """
        if not self._stale.is_set():
            return False
        self._stale.clear()  # before reading, so that no later change is lost
        before = self.current
        try:
            self.current = self._read()
        except BaseException:
            self._stale.set()
            raise
        return self.current != before

    def _read(self) -> Value:
        raise NotImplementedError

    def _on_change(self, event: object) -> None:
        self._stale.set()
        self._wake(event)


class SettingsWatch(ZnodeWatch[ClusterSettings]):
    """The last cluster-wide settings that could be read; the defaults before the first.

    Damaged ones are passed over with a warning, and the znode is made anew if it is gone: nobody
    who can only break it changes how the cluster runs.
    """

    def __init__(self, connection: Connection, tree: Tree, wake: Watch) -> None:
        super().__init__(connection, tree, wake, ClusterSettings())

    def _read(self) -> ClusterSettings:
        path = self._tree.settings
        found = self._connection.find(path, self._on_change)
        if found is None:  # and nobody would tell when it comes
            self._connection.ensure([path], self.current.encode())
            found = self._connection.get(path, self._on_change)
        settings = self._connection.unreadable.decoded(path, found, ClusterSettings.decode)
        return settings or self.current


class ProtocolWatch(ZnodeWatch[int]):
    """The protocol in use, as last read; the lowest that this version speaks before that.

    What differs between two protocols is written in the form of this one, and read in the forms of
    all that this version speaks: others learn of a raise sooner or later. What is missing or
    unreadable changes nothing. ``refresh`` raises ``Mismatch`` if this version does not speak it,
    so that this process must end.
    """

    def __init__(self, connection: Connection, tree: Tree, wake: Watch) -> None:
        super().__init__(connection, tree, wake, LOWEST)

    def _read(self) -> int:
        path = self._tree.meta
        try:
            found = self._connection.find(path, self._on_change)
        except Refused as error:
            logger.warning("the protocol cannot be read, %d goes on: %s", self.current, error)
            return self.current
        meta = self._connection.unreadable.decoded(path, found, Meta.decode)
        if meta is None or meta.protocol == CLOSED:
            return self.current
        fault = refusal(meta.protocol, self._tree.root, SPOKEN)
        if fault:
            raise Mismatch(fault)
        return meta.protocol
