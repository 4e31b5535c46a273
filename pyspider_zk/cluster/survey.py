"""Survey of a cluster: its members, and what their clocks and ZooKeeper's say."""

import time

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, event_name
from pyspider_zk.cluster.facts import ClusterFacts
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection


def survey(connection: Connection, settings: Settings) -> ClusterFacts:
    """Read a cluster; blocks for two round trips per member.

    Raises:
        Unavailable: ZooKeeper does not answer.
        Mismatch: there is no cluster at the root, or one of another protocol.
    """
    tree = Tree(settings.root)
    cluster = Directory(settings, connection).read()
    joined = {each: connection.dates(tree.member(each)) for each in cluster.members}
    renewed = {each: connection.dates(tree.lease(each)) for each in cluster.members}
    return ClusterFacts(
        cluster=cluster,
        joined={each: dates[0] for each, dates in joined.items() if dates},
        renewed={each: dates[1] for each, dates in renewed.items() if dates},
        told=_newest_event(connection, tree),
        now=time.time(),
    )


def _newest_event(connection: Connection, tree: Tree) -> tuple[Event, float] | None:
    for number, event in EventLog(connection, tree).read(limit=1):
        dates = connection.dates(f"{tree.events}/{event_name(number)}")
        if dates is not None:
            return event, dates[0]
    return None
