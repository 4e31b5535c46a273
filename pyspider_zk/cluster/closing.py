"""Closing a cluster that is at a standstill, to change what only a stopped cluster allows."""

import time
from collections.abc import Callable

from pyspider_zk.cluster.protocols import CLOSED, FIRST
from pyspider_zk.cluster.records import ComponentKind, Load, Meta
from pyspider_zk.cluster.rules import Rules
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Conflict
from pyspider_zk.limits import LONGEST_LEASE
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NodeExistsError

Wait = Callable[[float], object]


def close_cluster(connection: Connection, tree: Tree, wait: Wait = time.sleep) -> int:
    """Keep everybody from joining, once nobody is there; return the version of the meta record.

    A process that is suspended may still act while its lease lasts, so leases are waited for, as
    a leader waits for them. Blocks for so long. A cluster that is closed already stays so, so what
    was interrupted can be done again.

    Raises:
        Conflict: processes run, or somebody else writes.
        Unavailable: ZooKeeper does not answer.
    """
    connection.sync(tree.root)
    _check_nobody(connection, tree)
    version = _write_closed(connection, tree)
    connection.sync(tree.root)
    _check_nobody(connection, tree)  # somebody may have passed the meta record before
    _await_leases(connection, tree, wait)
    return version


def slots_of(connection: Connection, tree: Tree) -> int | None:
    """Return how many slots a cluster has, also while it is closed; None if nobody can tell."""
    found = connection.find(tree.meta)
    try:
        return Meta.decode(found[0]).slots if found else None
    except BadMessage:
        return None


def _write_closed(connection: Connection, tree: Tree) -> int:
    found = connection.find(tree.meta)
    slots, reopens = slots_of(connection, tree) or 1, FIRST if found is None else _reopens(found[0])
    closed = Meta(slots, CLOSED, reopens).encode()
    try:
        if found is None:
            connection.create(tree.meta, closed)
            return 0
        return connection.set(tree.meta, closed, found[1])
    except (BadVersionError, NodeExistsError):
        raise Conflict(f"somebody else changes the cluster at {tree.root}: try again") from None


def _reopens(data: bytes) -> int:
    """Return the protocol that a cluster goes by again when it is opened."""
    try:
        meta = Meta.decode(data)
    except BadMessage:
        return FIRST
    return meta.reopens if meta.protocol == CLOSED else meta.protocol


def _check_nobody(connection: Connection, tree: Tree) -> None:
    """Check that no process of the cluster is registered.

    Raises:
        Conflict: naming those that are.
    """
    running = [f"member {name}" for name in connection.children(tree.members)]
    for kind in ComponentKind:
        parent = f"{tree.components}/{kind}"
        running += [f"{kind} {name}" for name in connection.children(parent)]
    if running:
        raise Conflict(
            f"{len(running)} processes run at {tree.root}, such as {running[0]}: stop all of them."
            " One that was killed is gone when its session ends, after some seconds"
        )


def _await_leases(connection: Connection, tree: Tree, wait: Wait) -> None:
    """Wait until no lease can be held by anybody.

    Raises:
        Conflict: one of them was renewed meanwhile.
    """
    before = _leases(connection, tree)
    if not before:
        return
    lengths = [_length(data) for data, _ in before.values()]
    wait(max(Rules(lease=length).expiry for length in lengths))
    after = _leases(connection, tree)
    if {path: version for path, (_, version) in after.items()} != {
        path: version for path, (_, version) in before.items()
    }:
        raise Conflict(f"members renew their leases at {tree.root}: stop all of them")


def _leases(connection: Connection, tree: Tree) -> dict[str, tuple[bytes, int]]:
    paths = [f"{tree.leases}/{name}" for name in connection.children(tree.leases)]
    found = zip(paths, connection.find_all(paths), strict=True)
    return {path: lease for path, lease in found if lease is not None}


def _length(data: bytes) -> float:
    """Return how long a lease lasts; where that cannot be read, the longest that is allowed."""
    try:
        return min(Load.decode(data).lease, LONGEST_LEASE) or LONGEST_LEASE
    except BadMessage:
        return LONGEST_LEASE
