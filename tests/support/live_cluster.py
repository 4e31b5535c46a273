"""A cluster whose schedulers run in threads of the test's process."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspider.database import connect_database

from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from tests.support.memory_queues import MemoryBroker

DEADLINE = 60.0
PROJECTS = [("a", "RUNNING", "daily"), ("b", "STOP", ""), ("c", "STOP", "")]


class LiveCluster:
    """Databases, the message queue, which is in this process or a Redis, schedulers in threads."""

    def __init__(self, folder: Path, settings: Settings, redis: str = "") -> None:
        self.folder = folder
        self.settings = settings
        self.redis = redis
        self.broker = MemoryBroker()
        self.dispatched: queue.Queue[Any] = queue.Queue()
        self.running: list[ClusterScheduler] = []

    def database(self, kind: str) -> Any:
        return connect_database(f"sqlite+{kind}db:///{self.folder}/{kind}.db")

    def queues(self) -> Queues:
        if self.redis:
            return connect(self.redis, 0, self.settings.slots)
        return self.broker.queues(self.settings.slots)

    def project(self, name: str, status: str = "RUNNING", group: str = "") -> None:
        row = {"status": status, "script": "class Handler: pass", "group": group}
        self.database("project").insert(name, {**row, "comments": "", "rate": 1, "burst": 1})

    @contextmanager
    def scheduler(self) -> Iterator[ClusterScheduler]:
        """Run a scheduler while the block runs."""
        made = ClusterScheduler(
            taskdb=self.database("task"),
            projectdb=self.database("project"),
            resultdb=self.database("result"),
            newtask_queue=None,
            status_queue=None,
            out_queue=self.dispatched,
            data_path=str(self.folder),
            settings=self.settings,
            queues=self.queues(),
        )
        threads = [
            threading.Thread(target=made.xmlrpc_run, kwargs={"port": 0}, daemon=True),
            threading.Thread(target=made.run, daemon=True),
        ]
        for thread in threads:
            thread.start()
        self.running.append(made)
        try:
            yield made
        finally:
            self.running.remove(made)
            made.quit()
            for thread in threads:
                thread.join(DEADLINE)
                assert not thread.is_alive()


@contextmanager
def living(cluster: LiveCluster, eventually: Callable[..., None]) -> Iterator[LiveCluster]:
    """Give the cluster three projects, and a scheduler that owns all slots while the block runs."""
    for name, status, group in PROJECTS:
        cluster.project(name, status, group)
    with cluster.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == cluster.settings.slots)
        eventually(lambda: scheduler.rpc.bound(DEADLINE))
        yield cluster
