"""The values that a cluster is created with."""

import pytest

from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.records import Assignment, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection

pytestmark = pytest.mark.zk


def test_a_new_cluster_counts_epochs_from_the_time(
    connection: Connection, settings: Settings
) -> None:
    tree, meta = Tree(settings.root), Meta(settings.slots)
    ensure_cluster(connection, tree, meta, lambda: 1_800_000_000.9)
    ensure_cluster(connection, tree, meta, lambda: 1_900_000_000.0)

    data, _ = connection.get(tree.assignment)
    assert {row.epoch for row in Assignment.decode(data).slots} == {1_800_000_000}
