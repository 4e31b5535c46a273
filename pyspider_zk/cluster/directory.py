"""Directory of the cluster for processes that own nothing: web UI, commands, processors."""

import time
from collections.abc import Callable, Mapping
from typing import Self

from pyspider_zk.cluster.cluster_settings import ClusterSettings, WeighBy
from pyspider_zk.cluster.reader import Reader, read_components, read_members
from pyspider_zk.cluster.records import (
    Assignment,
    Cluster,
    ComponentKind,
    Load,
    Member,
    Meta,
    check_meta,
    decode_scale,
    no_cluster,
)
from pyspider_zk.cluster.rules import Stamp, observe
from pyspider_zk.cluster.tree import Tree, candidate_of, leader_of
from pyspider_zk.cluster.weighing import Rates, SlotRates
from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Ask, Connection
from pyspider_zk.zookeeper.unreadable import Found


class Directory:
    """Reader of a cluster's state in ZooKeeper.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, settings: Settings, connection: Connection | None = None) -> None:
        self._connection = connection or Connection(settings)
        self._tree = Tree(settings.root)
        self._reader = Reader(self._tree, self._connection.unreadable)
        self._born = Meta(settings.slots)
        self._last = Assignment.vacant(settings.slots)
        self._settings = ClusterSettings()
        self._rates: Rates = {}

    def start(self, patience: float | None = None) -> None:
        """Connect; wait up to ``patience`` seconds, or as a connection does by default.

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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def members(self) -> dict[MemberId, Member]:
        """Return the members that run and can be read."""
        return read_members(self._connection, self._tree)

    def read(self) -> Cluster:
        """Return the whole cluster; it names the znodes that were unreadable and skipped.

        In place of an unreadable assignment, settings or rates it has the last readable ones.

        Raises:
            Mismatch: no cluster was ever founded at this root, or by another protocol.
        """
        tree, unreadable = self._tree, self._connection.unreadable
        paths = [tree.meta, tree.assignment, tree.scale, tree.settings, tree.slot_rates]
        meta, table, scale, shared, rates = self._connection.find_all(paths)
        born = self._checked_meta(meta)
        unreadable.decoded(tree.scale, scale, decode_scale)
        settings = unreadable.decoded(tree.settings, shared, ClusterSettings.decode)
        self._settings = settings or self._settings
        members = self.members()
        leases, slot_rates = self._leases(members), self._slot_rates(rates)
        return Cluster(
            born,
            self._assignment(table, born.slots),
            self._leader(),
            members,
            self._reader.values(tree.lease, leases, Load.decode),
            {kind: read_components(self._connection, tree, kind) for kind in ComponentKind},
            {member: version for member, (_, version) in leases.items()},
            unreadable.mapping(),
            self._settings,
            slot_rates,
        )

    def _checked_meta(self, found: Found | None) -> Meta:
        root = self._tree.root
        if found is None:
            raise no_cluster(root)
        born = (
            self._connection.unreadable.decoded(self._tree.meta, found, Meta.decode) or self._born
        )
        fault = check_meta(born, born.slots, root)
        if fault:
            raise Mismatch(fault)
        self._born = born
        return born

    def _slot_rates(self, found: Found | None) -> Rates:
        record = self._connection.unreadable.decoded(self._tree.slot_rates, found, SlotRates.decode)
        self._rates = self._rates if record is None else record.rates
        return self._rates if self._settings.weigh_by is WeighBy.LOAD else {}

    def _assignment(self, found: Found | None, slots: int) -> Assignment:
        table = self._connection.unreadable.decoded(
            self._tree.assignment, found, lambda data: Assignment.decode(data, slots)
        )
        if table is not None or len(self._last.slots) != slots:
            self._last = table or Assignment.vacant(slots)
        return self._last if found else Assignment.vacant(slots)

    def _leader(self) -> MemberId | None:
        names = self._reader.candidates(self._connection.children(self._tree.election))
        first = leader_of(names)
        return candidate_of(first) if first else None

    def _leases(self, members: Mapping[MemberId, Member]) -> dict[MemberId, Found]:
        asks: list[Ask] = [(self._tree.lease(member), None) for member in members]
        found = self._connection.look(asks, [(self._tree.leases, None)])
        self._reader.members(self._tree.leases, found.names[0])  # forgets those that are gone
        return {member: lease for member, lease in zip(members, found.data, strict=True) if lease}


class LeaseWatch:
    """Watch that records when it first sees each renewal; the leader uses the same rule.

    So an age is how long the present renewal has been known here: it is at least as old. At the
    first read all are new. Threads: one.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stamps: Mapping[MemberId, Stamp] = {}

    def ages(self, cluster: Cluster) -> dict[MemberId, float]:
        """Return the ages after a read of the cluster, in seconds."""
        now = self._clock()
        self._stamps = observe(self._stamps, cluster.renewals, now, {})
        return {member: now - stamp.first_seen for member, stamp in self._stamps.items()}
