"""Meta record: the values that a cluster is created with."""

import time
from collections.abc import Callable
from dataclasses import replace

from pyspider_zk.cluster.protocols import LOWEST, SPOKEN, highest_common
from pyspider_zk.cluster.records import Assignment, Meta, check_meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.cluster.upgrade import Upgrade
from pyspider_zk.errors import BadMessage, Mismatch
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError


def ensure_cluster(
    connection: Connection, tree: Tree, mine: Meta, clock: Callable[[], float] = time.time
) -> None:
    """Create the cluster if it does not exist, or check that we belong to it.

    Epochs begin above the time in seconds since 1970: the task database may know those of an
    earlier ZooKeeper, which grew more slowly than one per second.

    A table that somebody deleted is created as an unreadable one, because members may own
    slots by it; the leader rewrites it when that is safe.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    ensure_meta(connection, tree, mine)
    connection.ensure([tree.ids, tree.members, tree.leases, tree.acks, tree.election])
    vacant = Assignment.vacant(mine.slots, epoch=int(clock())).encode()
    connection.ensure([tree.assignment], b"" if connection.children(tree.leases) else vacant)
    if tree.meta in connection.unreadable.mapping():
        _repair_meta(connection, tree, mine)


def ensure_meta(connection: Connection, tree: Tree, mine: Meta) -> Meta:
    """Create the cluster, or check that it was created with the same values.

    Unreadable values are skipped: a running process knows its own.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    found = connection.find(tree.meta)
    if found is None:
        connection.ensure([tree.meta], mine.encode())
        found = connection.get(tree.meta)
    try:
        fault = check_meta(Meta.decode(found[0]), mine.slots, tree.root)
    except BadMessage as error:
        connection.unreadable.note(tree.meta, error)
        return mine
    connection.unreadable.forget(tree.meta)
    if fault:
        raise Mismatch(fault)
    return mine


def _repair_meta(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Rewrite unreadable values, if the assignment proves that they were mine.

    Nobody knows any more which protocol was in use. It is at most the highest that all speak who
    run, and a higher one than it was only keeps out who would be too old soon anyway; a lower one
    would let in who cannot read what was written.

    Raises:
        Mismatch: the assignment has another number of slots.
    """
    meta, table = connection.find_all([tree.meta, tree.assignment])
    if meta is None or table is None:
        return
    try:
        born = len(Assignment.decode(table[0]).slots)
    except BadMessage:
        return  # it proves nothing
    fault = check_meta(replace(mine, slots=born), mine.slots, tree.root)
    if fault:
        raise Mismatch(fault)
    spoken = {**Upgrade(connection, tree).spoken(), "": SPOKEN}
    lost = Meta(mine.slots, highest_common(LOWEST, spoken))
    try:
        connection.set(tree.meta, lost.encode(), meta[1])
    except BadVersionError:
        return  # another process did
