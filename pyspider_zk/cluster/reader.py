"""Reader of znodes that anybody may have written: what cannot be read is skipped."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pyspider_zk.cluster.records import Assignment, LeaseTerms, Load, Member, decode_acks
from pyspider_zk.cluster.rules import candidate_of
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.unreadable import Unreadable

Value = TypeVar("Value")
Found = tuple[bytes, int]
"""A znode's data and version."""


class Reader:
    """Parser of the state in ZooKeeper; records the paths that it skips.

    Threads: any; nothing blocks.
    """

    def __init__(self, tree: Tree, unreadable: Unreadable) -> None:
        self._tree = tree
        self._unreadable = unreadable
        self._stray: dict[str, set[str]] = {}

    def value(
        self, path: str, found: Found | None, decode: Callable[[bytes], Value]
    ) -> Value | None:
        """Return a znode's value, None if it is missing or unreadable."""
        try:
            value = None if found is None else decode(found[0])
        except BadMessage as error:
            self._unreadable.note(path, error)
            return None
        self._unreadable.forget(path)
        return value

    def members(self, parent: str, names: Iterable[str]) -> list[MemberId]:
        """Return the members that znodes are named after; other names are skipped."""
        return list(self._parsed(parent, names, MemberId.parse).values())

    def candidates(self, names: Iterable[str]) -> list[str]:
        """Return the valid election nodes; other names are skipped."""
        return list(self._parsed(self._tree.election, names, candidate_of))

    def loads(self, found: Mapping[MemberId, Found | None]) -> dict[MemberId, Load]:
        """Return the loads in the readable leases."""
        loads = {
            member: self.value(self._tree.lease(member), lease, Load.decode)
            for member, lease in found.items()
        }
        return {member: load for member, load in loads.items() if load is not None}

    def terms(self, found: Mapping[MemberId, Found | None]) -> dict[MemberId, LeaseTerms]:
        """Return the terms of the readable leases."""
        terms = {
            member: self.value(self._tree.lease(member), lease, _terms)
            for member, lease in found.items()
        }
        return {member: each for member, each in terms.items() if each is not None}

    def records(self, found: Mapping[MemberId, Found | None]) -> dict[MemberId, Member]:
        """Return the readable member records."""
        records = {
            member: self.value(self._tree.member(member), data, Member.decode)
            for member, data in found.items()
        }
        return {member: record for member, record in records.items() if record is not None}

    def acks(self, found: Mapping[MemberId, Found | None]) -> dict[MemberId, dict[int, int]]:
        """Return the readable releases."""
        acks = {
            member: self.value(self._tree.ack(member), data, decode_acks)
            for member, data in found.items()
        }
        return {member: slots for member, slots in acks.items() if slots is not None}

    def _parsed(
        self, parent: str, names: Iterable[str], parse: Callable[[str], Value]
    ) -> dict[str, Value]:
        parsed, stray = {}, set()
        for name in names:
            try:
                parsed[name] = parse(name)
            except BadMessage as error:
                stray.add(f"{parent}/{name}")
                self._unreadable.note(f"{parent}/{name}", error)
        self._unreadable.forget(*(self._stray.get(parent, set()) - stray))
        self._stray[parent] = stray
        return parsed


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


def read_members(
    connection: Connection, tree: Tree, reader: Reader, watch: Watch | None = None
) -> dict[MemberId, Member]:
    """Return the members whose ephemeral node exists and can be read."""
    members = reader.members(tree.members, connection.children(tree.members, watch))
    found = connection.find_all([tree.member(member) for member in members])
    return reader.records(dict(zip(members, found, strict=True)))


def _terms(data: bytes) -> LeaseTerms:
    """Return the terms of a lease; if its load is junk, what it says of itself is none the better.

    Raises:
        BadMessage: one of both cannot be read.
    """
    Load.decode(data)
    return LeaseTerms.decode(data)
