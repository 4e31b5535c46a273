"""Access of a command to the cluster that its user gives orders to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspider_zk.cli.batches import user
from pyspider_zk.cli.target import target
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.meta import Upgrade
from pyspider_zk.cluster.orders import Orders, SettingsStore
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection


class OpenCluster(NamedTuple):
    """What a command may do with a cluster, over one connection."""

    own: Settings
    directory: Directory
    store: SettingsStore
    orders: Orders
    events: EventLog
    upgrade: Upgrade


@contextmanager
def opened_cluster(options: dict[str, Any]) -> Iterator[OpenCluster]:
    """Open the command's cluster.

    Raises:
        Unavailable: no ZooKeeper answers.
    """
    own = target(options).settings
    connection, tree = Connection(own), Tree(own.root)
    connection.start()
    try:
        store = SettingsStore(connection, tree)
        directory, events = Directory(own, connection), EventLog(connection, tree)
        upgrade = Upgrade(connection, tree)
        yield OpenCluster(own, directory, store, Orders(store, user()), events, upgrade)
    finally:
        connection.stop()
