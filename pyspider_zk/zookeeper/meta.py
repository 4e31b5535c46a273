"""What a cluster is born with."""

from kazoo.exceptions import NodeExistsError

from pyspider_zk.core.names import Tree
from pyspider_zk.core.records import Assignment, Meta, check_meta
from pyspider_zk.errors import Mismatch
from pyspider_zk.zookeeper.connection import Connection


def ensure_cluster(connection: Connection, tree: Tree, mine: Meta) -> None:
    """Found the cluster if it is not there, or make sure that we belong to it.

    Raises:
        Mismatch: the cluster has another protocol or slot count.
    """
    ensure_meta(connection, tree, mine)
    connection.ensure([tree.ids, tree.members, tree.leases, tree.acks, tree.election])
    connection.ensure([tree.assignment], Assignment.vacant(mine.slots).encode())


def ensure_meta(connection: Connection, tree: Tree, mine: Meta) -> Meta:
    """Found the cluster, or make sure that it was founded with the same values.

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
    fault = check_meta(Meta.decode(found[0]), mine, tree.root)
    if fault:
        raise Mismatch(fault)
    return mine
