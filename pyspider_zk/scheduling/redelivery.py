"""Redelivery: what workers had taken when they died goes back to its queue, for others to take."""

import logging
from collections.abc import Callable

from pyspider_zk.errors import ClusterError
from pyspider_zk.loop import Loop
from pyspider_zk.outage import Outage
from pyspider_zk.queues.api import WorkQueues
from pyspider_zk.queues.names import WORK_QUEUES

logger = logging.getLogger("scheduler")

INTERVAL = 1.0
"""Seconds between two looks."""


class Redelivery:
    """Redelivery by the member that leads; the others do nothing.

    A worker registers its name in ZooKeeper before it takes a message, and keeps it for as long as
    it has a session. Who has no name at two looks in a row has died; or it hangs, and what it had
    is done twice.

    Threads: a loop of its own looks, and blocks while services are slow.

    Args:
        leads: whether this member does.
        present: returns the names of the workers that are registered.

    Attributes:
        loop: looks again and again; its owner starts and stops it.
    """

    def __init__(
        self, leads: Callable[[], bool], present: Callable[[], set[str]], work: WorkQueues
    ) -> None:
        self._leads = leads
        self._present = present
        self._work = work
        self._missing: set[tuple[str, str]] = set()
        self._outage = Outage(
            logger, "nothing is redelivered: %s", "what dead workers had is redelivered again"
        )
        self.loop = Loop("redelivery", self._turn, INTERVAL)

    def _turn(self) -> float:
        try:
            self.look()
            self._outage.answered()
        except ClusterError as error:
            self._outage.failed(error)
        return INTERVAL

    def look(self) -> None:
        """Give back what those have who were missing at the last look, and are now.

        Raises:
            Unavailable: ZooKeeper or the message queue does not answer.
        """
        before, self._missing = self._missing, set()
        if not self._leads():
            return
        takers = {(queue, name) for queue in WORK_QUEUES for name in self._work.takers(queue)}
        present = self._present() if takers else set()
        missing = {(queue, name) for queue, name in takers if name not in present}
        for queue, name in sorted(missing & before):
            count = self._work.give_back(queue, name)
            if count:
                logger.warning("a worker died: %d messages of %s are redelivered", count, queue)
        self._missing = missing - before
