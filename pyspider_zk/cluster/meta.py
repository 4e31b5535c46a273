"""Meta record: what a cluster is born with."""

from pyspider_zk.cluster.records import Assignment, Meta, check_meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Mismatch
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NodeExistsError


def ensure_cluster(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Found the cluster if it is not there, or make sure that we belong to it.

    A table that somebody deleted is founded as one that nobody can read, for members may hold
    slots by it; the leader writes it anew when that is safe.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    ensure_meta(connection, tree, mine)
    connection.ensure([tree.ids, tree.members, tree.leases, tree.acks, tree.election])
    vacant = Assignment.vacant(mine.slots).encode()
    connection.ensure([tree.assignment], b"" if connection.children(tree.leases) else vacant)
    if tree.meta in connection.unreadable.mapping():
        _mend_meta(connection, tree, mine)


def ensure_meta(connection: Connection, tree: Tree, mine: Meta) -> Meta:
    """Found the cluster, or make sure that it was founded with the same values.

    Values that nobody can read are passed over: a process that runs knows what it runs with.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    found = connection.find(tree.meta)
    if found is None:
        try:
            connection.create(tree.meta, mine.encode())
        except NodeExistsError:
            return ensure_meta(connection, tree, mine)
        return mine
    try:
        fault = check_meta(Meta.decode(found[0]), mine, tree.root)
    except BadMessage as error:
        connection.unreadable.note(tree.meta, error)
        return mine
    connection.unreadable.forget(tree.meta)
    if fault:
        raise Mismatch(fault)
    return mine


def _mend_meta(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Write the values anew that nobody can read, if the assignment proves them to be mine.

    Raises:
        Mismatch: the assignment has another number of slots.
    """
    meta, table = connection.find_all([tree.meta, tree.assignment])
    if meta is None or table is None:
        return
    try:
        born = Meta(len(Assignment.decode(table[0]).slots))
    except BadMessage:
        return  # it proves nothing
    fault = check_meta(born, mine, tree.root)
    if fault:
        raise Mismatch(fault)
    try:
        connection.set(tree.meta, mine.encode(), meta[1])
    except BadVersionError:
        return  # another did
