"""Finalizer of batches: reports their end, stores their jobs' outcomes, deletes old batches."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.databases.guarded import Guarded, guarded
from pyspider_zk.errors import ClusterError, SessionLost, Unavailable
from pyspider_zk.jobs.answers import ended_event, outcome_dict
from pyspider_zk.jobs.model import Batch, Job, JobName, JobState
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.loop import Loop
from pyspider_zk.outage import Outage
from pyspider_zk.zookeeper.errors import OUTDATED

logger = logging.getLogger(__name__)

ARCHIVE = "pyspider_zk_jobs"
"""The project under which the outcomes of jobs are kept in the result database."""

PAUSE = 3.0  # seconds between two looks
IDLE = 60.0  # seconds between two looks of a leader while no batch is open: a watch tells of one
TIDYING = 60.0  # seconds between two deletions of old batches
PATIENCE = 3600.0  # seconds that a batch waits for the result database, once it has ended


class Finalizer:
    """Finalizer: closes ended batches by storing the outcomes of their jobs, then the event.

    It works while its member leads, and then also deletes the oldest batches from time to time.

    Jobs end at many members, some of which have no result database; the leader sees them all.
    Both can be repeated: outcomes have keys, and the event is written with a mark in the batch.

    Threads: one of its own, which may wait for the database.

    Args:
        resultdb: pyspider's, of which a copy is used; None: there is none.

    Attributes:
        loop: looks again and again; its owner starts and stops it, and any thread may wake it.
    """

    def __init__(
        self,
        queue: JobQueue,
        events: EventLog,
        fence: Fence,
        resultdb: Any,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._events = events
        self._fence = fence
        self._original = resultdb
        self._copy: Guarded | None = None
        self._clock = clock
        self._closed: set[str] = set()
        self._pause = PAUSE
        self._tidied = float("-inf")
        self._outage = Outage(
            logger, "outcomes of jobs are not stored yet: %r", "outcomes of jobs are stored again"
        )
        self._fault = Outage(
            *(logger, "a batch cannot be closed: %r", "all batches are closed again"),
            is_fault=True,
        )
        self.loop = Loop("finalizer", self._turn)

    def look(self) -> None:
        """Close ended batches and delete old ones, if this member leads.

        Raises:
            Unavailable: ZooKeeper does not answer.
        """
        self._pause = PAUSE
        ownership = self._fence.ownership
        if ownership is None or not ownership.leading:
            self._closed.clear()  # another leader may delete batches, and new ones have their ids
            return
        ended, is_any_open = self._queue.unclosed(self._closed, self.loop.wake)
        self._close_each(ended)
        self._tidy()
        if not is_any_open:
            self._pause = IDLE

    def _turn(self) -> float:
        try:
            self.look()
        except (Unavailable, SessionLost, *OUTDATED) as error:
            logger.debug("batches are closed later: %r", error)
        return self._pause

    def _tidy(self) -> None:
        now = self._clock()
        if now - self._tidied >= TIDYING:
            self._tidied = now
            self._queue.trim()

    def _close_each(self, ended: Iterable[Batch]) -> None:
        """Close batches; one that cannot be keeps neither the others nor the old ones."""
        has_failed = False
        for batch in ended:
            try:
                if self._keep(batch):
                    event = ended_event(batch, self._clock())
                    self._queue.close(batch.id, self._events.step(event))
            except ClusterError:
                raise
            except Exception as error:  # a fault of ours, of whatever class
                has_failed = True
                self._fault.failed(error)
        if not has_failed:
            self._fault.answered()

    def _keep(self, batch: Batch) -> bool:
        """Store the outcomes of a batch; return whether it may be closed."""
        if self._original is None:
            return True
        jobs = batch.jobs[JobState.DONE]
        try:
            self._database().together(partial(self._save, jobs), lambda: None)
        except Exception as error:  # each database has its own errors
            self._outage.failed(error)
            return self._clock() - max(job.ended for job in jobs.values()) > PATIENCE
        self._outage.answered()
        return True

    def _save(self, jobs: Mapping[JobName, Job]) -> None:
        for name, job in jobs.items():
            record = outcome_dict(name, job)
            url = f"data:,{record['operation']}"
            self._database().save(ARCHIVE, name.key, url, record)

    def _database(self) -> Guarded:
        if self._copy is None:
            self._copy = guarded(self._original.copy(), "resultdb")
        return self._copy
