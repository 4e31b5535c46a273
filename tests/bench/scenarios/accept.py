"""A batch over 10,000 projects is accepted, and told of."""

import time
from typing import Any

from pyspider.database import connect_database

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.connection import Connection
from tests.bench.bench import Bench
from tests.bench.databases import add_projects
from tests.bench.figures import summary

SCRIPT = "x" * 2000


def scenario(bench: Bench) -> dict[str, Any]:
    """Return seconds of each step, by database."""
    return {database: _measured(bench, database) for database in bench.some_databases}


def _measured(bench: Bench, database: str) -> dict[str, Any]:
    place = bench.place(database)
    names = [f"project_{number}" for number in range(bench.size.accepted)]
    add_projects(place.databases, names, "STOP", SCRIPT)
    connection, tree = Connection(place.settings), Tree(place.settings.root)
    connection.start()
    try:
        jobs, events = JobQueue(connection, tree.jobs), EventLog(connection, tree)
        projectdb = connect_database(place.databases["projectdb"])
        read = Directory(place.settings, connection).read
        service = BatchService(projectdb, jobs, events, read, place.settings.slots)
        return summary([_accepted(service) for _ in range(bench.size.runs)])
    finally:
        connection.stop()


def _accepted(service: BatchService) -> dict[str, float]:
    begin = time.perf_counter()
    batch = service.submit("start", Selection(all=True))
    accepted = time.perf_counter()
    service.batch(batch["id"])
    told = time.perf_counter()
    service.cancel(batch["id"])
    return {
        "accepted_s": accepted - begin,
        "told_s": told - accepted,
        "jobs": sum(batch["jobs"].values()),
    }
