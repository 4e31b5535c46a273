"""A crawl, observed through pyspider's databases and queues."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspider.database import connect_database
from pyspider.message_queue import connect_message_queue

from pyspider_zk.config import Settings
from pyspider_zk.local.plan import Addresses
from pyspider_zk.queues.connect import connect

ACTIVE = 1  # pyspider's taskdb.ACTIVE
STOCK_QUEUES = ("scheduler2fetcher", "fetcher2processor", "processor2result")
PER_SECOND = 200.0  # a loopback site needs no mercy


@dataclass(frozen=True)
class Ahead:
    """What is not done yet.

    Attributes:
        tasks: tasks that the task database calls active.
        messages: messages in all queues.
    """

    tasks: int
    messages: int

    @property
    def nothing(self) -> bool:
        """Whether the crawl has ended."""
        return self.tasks == 0 and self.messages == 0


class Crawl:
    """The projects of one crawl in the databases and queues of a cluster.

    One thread; calls block for a database's or Redis's answer.

    Args:
        addresses: the cluster's.
        settings: the cluster's; for the number of slots.
        projects: the names of the projects.
    """

    def __init__(self, addresses: Addresses, settings: Settings, projects: Iterable[str]) -> None:
        self._projects = tuple(projects)
        self._taskdb: Any = connect_database(addresses.taskdb)
        self._projectdb: Any = connect_database(addresses.projectdb)
        self._resultdb: Any = connect_database(addresses.resultdb)
        self._queues = connect(addresses.message_queue, 0, settings.slots)
        self._stock = [
            connect_message_queue(name, addresses.message_queue) for name in STOCK_QUEUES
        ]

    def close(self) -> None:
        """Close the queues."""
        self._queues.close()

    def create(self, script: str) -> None:
        """Create the projects, running and with the same script."""
        for name in self._projects:
            self._projectdb.insert(
                name,
                {
                    "name": name,
                    "group": "demo",
                    "status": "RUNNING",
                    "script": script,
                    "rate": PER_SECOND,
                    "burst": PER_SECOND,
                    "updatetime": time.time(),
                },
            )

    def active(self, project: str) -> int:
        """Return how many tasks of a project are not done."""
        return int(self._taskdb.status_count(project).get(ACTIVE, 0))

    def ahead(self) -> Ahead:
        """Return what is not done yet in all projects."""
        slot_queues = self._queues.slot_queues.lengths().values()
        inbox = self._queues.inbox.lengths().values()
        stock = (queue.qsize() for queue in self._stock)
        return Ahead(
            sum(self.active(project) for project in self._projects),
            sum(slot_queues) + sum(inbox) + sum(stock),
        )

    def done(self) -> int:
        """Return how many results there are."""
        return sum(self._resultdb.count(project) for project in self._projects)

    def pages(self) -> set[str]:
        """Return the URLs of all results."""
        return {
            row["url"]
            for project in self._projects
            for row in self._resultdb.select(project, fields=["url"])
        }


def on_start(project: str) -> dict[str, Any]:
    """Return the task that the web UI's run button makes."""
    return {
        "project": project,
        "taskid": "on_start",
        "url": "data:,on_start",
        "process": {"callback": "on_start"},
        "schedule": {"age": 0, "priority": 9, "force_update": True},
    }
