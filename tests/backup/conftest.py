"""A real ZooKeeper with something in it to keep."""

from collections.abc import Iterator

import pytest

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import connected


@pytest.fixture
def connection(cluster_settings: Settings) -> Iterator[Connection]:
    with connected(cluster_settings) as made:
        yield made


@pytest.fixture
def tree(cluster_settings: Settings) -> Tree:
    return Tree(cluster_settings.root)


@pytest.fixture
def jobs(connection: Connection, tree: Tree) -> JobQueue:
    return JobQueue(connection, tree.jobs)


@pytest.fixture
def events(connection: Connection, tree: Tree) -> EventLog:
    return EventLog(connection, tree)


@pytest.fixture
def founded(connection: Connection, tree: Tree, events: EventLog) -> Tree:
    """Found a cluster of eight slots, in which some things happened."""
    ensure_cluster(connection, tree, Meta(8), lambda: 1000.0)
    connection.create(f"{tree.ids}/0", b"first")
    connection.create(tree.scale, b"3")
    for number in range(3):
        events.append(Event("joined", f"member {number} joined", float(number)))
    return tree
