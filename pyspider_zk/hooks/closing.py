"""Telling the end of batches, and keeping the outcomes of their jobs: the leader's part."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspider_zk.core import batch_events
from pyspider_zk.core.jobs import Batch, JobState
from pyspider_zk.core.progress import outcome_dict
from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.hooks.gate import Gate
from pyspider_zk.zookeeper.events import Events
from pyspider_zk.zookeeper.jobs import JobQueue

logger = logging.getLogger("pyspider_zk.jobs")

ARCHIVE = "pyspider_zk_jobs"
"""The project under which the outcomes of jobs are kept in the result database."""

PAUSE = 3.0  # seconds between two looks
LEAVING = 5.0  # seconds that leaving waits for the database
PATIENCE = 3600.0  # seconds that a batch waits for the result database, once it has ended


class Closer:
    """Closes the batches that have ended: keeps what became of their jobs, then tells their end.

    A job may end in many hands, some of which have no result database; the leader sees them all.
    Both can be repeated: outcomes have keys, and the event is written with a mark in the batch.

    Threads: one of its own, which may wait for the database. ``start`` and ``stop`` belong to the
    thread that owns the scheduler; ``wake`` may be called from any and never blocks.

    Args:
        resultdb: pyspider's, of which a copy is used; None: there is none.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        queue: JobQueue,
        gate: Gate,
        resultdb: Any,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._gate = gate
        self._original = resultdb
        self._copy: Any = None
        self._clock = clock
        self._closed: set[str] = set()
        self._away = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="closer", daemon=True)

    def start(self) -> None:
        """Begin to look, now and then."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Blocks for some seconds at most, while the database does not answer."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(LEAVING)

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    def look(self) -> None:
        """Close what has ended, if this member leads.

        Raises:
            Unavailable: ZooKeeper does not answer.
        """
        ownership = self._gate.ownership
        events = ownership.events if ownership is not None and ownership.leading else None
        if events is None:
            self._closed.clear()  # another may forget batches and have new ones of their ids
            return
        for batch in self._queue.unclosed(self._closed):
            self._close(batch, events)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except (Unavailable, SessionLost) as error:
                logger.debug("batches are closed later: %s", error)
            except Exception:
                logger.exception("batches are closed later")
            self._wake.wait(PAUSE)
            self._wake.clear()

    def _close(self, batch: Batch, events: Events) -> None:
        if self._keep(batch):
            event = batch_events.ended(batch, self._clock())
            self._queue.close(batch.id, events.step(event))

    def _keep(self, batch: Batch) -> bool:
        """Keep the outcomes of a batch; return whether it may be closed."""
        if self._original is None:
            return True
        jobs = batch.jobs[JobState.DONE]
        try:
            for name, job in jobs.items():
                record = outcome_dict(name, job)
                url = f"data:,{record['operation']}"
                self._database().save(ARCHIVE, name.key, url, record)
        except Exception as error:  # each database has errors of its own
            self._say_away(batch, error)
            return self._clock() - max(job.ended for job in jobs.values()) > PATIENCE
        self._away = False
        return True

    def _database(self) -> Any:
        if self._copy is None:
            self._copy = self._original.copy()
        return self._copy

    def _say_away(self, batch: Batch, error: Exception) -> None:
        if not self._away:
            logger.warning("the outcomes of batch %s are not kept yet: %r", batch.id, error)
        self._away = True
