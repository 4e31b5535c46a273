"""Measures how long it takes to accept a batch over 10,000 projects.

Usage: ``python -m tests.jobs.benchmark 127.0.0.1:2181`` with a ZooKeeper that may be written to
(below ``/benchmark-jobs``).
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspider.database import connect_database

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.connection import Connection

PROJECTS = 10_000
RUNS = 5


def insert(projectdb: Any) -> None:
    """Write the projects' rows, in one go."""
    projectdb._execute("BEGIN")
    for number in range(PROJECTS):
        row = {"status": "STOP", "group": "", "script": "x" * 2000, "comments": ""}
        projectdb.insert(f"project_{number}", {**row, "rate": 1, "burst": 3})
    projectdb._execute("COMMIT")


def main(hosts: str) -> None:
    """Print the time of each step."""
    settings = Settings(hosts=hosts, root="/benchmark-jobs")
    connection, tree = Connection(settings), Tree(settings.root)
    connection.start()
    with TemporaryDirectory() as folder:
        projectdb = connect_database(f"sqlite+projectdb:///{Path(folder) / 'project.db'}")
        insert(projectdb)
        jobs = JobQueue(connection, tree.jobs)
        read = Directory(settings, connection).read
        batch_service = BatchService(
            projectdb, jobs, EventLog(connection, tree), read, settings.slots
        )
        for _ in range(RUNS):
            begin = time.perf_counter()
            batch = batch_service.submit("start", Selection(all=True))
            taken = time.perf_counter() - begin
            count = sum(batch["jobs"].values())
            sys.stdout.write(f"accepted {PROJECTS} projects as {count} jobs in {taken:.3f} s\n")
            begin = time.perf_counter()
            batch_service.batch(batch["id"])
            sys.stdout.write(f"told of it in {time.perf_counter() - begin:.3f} s\n")
            batch_service.cancel(batch["id"])
    connection.stop()


if __name__ == "__main__":
    main(sys.argv[1])
