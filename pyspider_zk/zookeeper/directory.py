"""Reading the cluster, for those that take no part in it: web UI, command line, processors."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Tree
from pyspider_zk.core.ownership import candidate_of, leader_of
from pyspider_zk.core.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Load,
    Member,
    MemberId,
    Meta,
    check_meta,
)
from pyspider_zk.errors import Mismatch
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.leadership import read_members


class Directory:
    """Reads what stands in ZooKeeper about a cluster.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, settings: Settings, connection: Connection | None = None) -> None:
        self._connection = connection or Connection(settings)
        self._tree = Tree(settings.root)

    def start(self, patience: float = 10.0) -> None:
        """Connect; wait up to ``patience`` seconds.

        Raises:
            Unavailable: nothing answers.
        """
        self._connection.start(patience)

    def stop(self) -> None:
        """Disconnect."""
        self._connection.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def members(self) -> dict[MemberId, Member]:
        """Return the members that run."""
        return read_members(self._connection, self._tree)

    def read(self) -> Cluster:
        """Return the whole cluster.

        Raises:
            Mismatch: no cluster was ever founded at this root, or by another protocol.
        """
        meta, assignment = self._connection.find_all([self._tree.meta, self._tree.assignment])
        if meta is None:
            raise Mismatch(f"there is no cluster at {self._tree.root}: start a scheduler first")
        born = Meta.decode(meta[0])
        fault = check_meta(born, Meta(born.slots), self._tree.root)
        if fault:
            raise Mismatch(fault)
        members = self.members()
        leases = self._leases(members)
        return Cluster(
            born,
            Assignment.decode(assignment[0]) if assignment else Assignment.vacant(born.slots),
            self._leader(),
            members,
            {member: Load.decode(data) for member, (data, _) in leases.items()},
            self._components(),
            {member: version for member, (_, version) in leases.items()},
        )

    def _leader(self) -> MemberId | None:
        first = leader_of(self._connection.children(self._tree.election))
        return candidate_of(first) if first else None

    def _leases(self, members: Mapping[MemberId, Member]) -> dict[MemberId, tuple[bytes, int]]:
        leases = self._connection.find_all([self._tree.lease(member) for member in members])
        return {member: lease for member, lease in zip(members, leases, strict=True) if lease}

    def _components(self) -> dict[ComponentKind, dict[str, Component]]:
        return {kind: self._component(kind) for kind in ComponentKind}

    def _component(self, kind: ComponentKind) -> dict[str, Component]:
        names = self._connection.children(f"{self._tree.components}/{kind}")
        found = self._connection.find_all([self._tree.component(kind, name) for name in names])
        return {
            name: Component.decode(record[0])
            for name, record in zip(names, found, strict=True)
            if record
        }
