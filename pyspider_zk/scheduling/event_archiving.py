"""Event archiving: the leader copies events to the archive, and keeps the log and it short."""

import logging
import time
from collections.abc import Callable

from pyspider_zk.cluster.event_archive import EventArchive
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.loop import Loop
from pyspider_zk.outage import Outage
from pyspider_zk.queues.queue_sizes import answer_of

logger = logging.getLogger("scheduler")

INTERVAL = 1.0
"""Seconds between two looks while events come, or something does not answer."""

REST = 10.0
"""Seconds between two looks while a watch tells of no event."""

KEPT = 1_000
"""Events of the log that stay there although they are archived."""

MOST = 10_000
"""Events that the log keeps while they cannot be archived; the oldest go then."""

READ_AT_ONCE = 500
"""Events of the log."""

KEPT_FOR = 90 * 86_400.0
"""Seconds that the archive keeps an event."""

TIDYING = 3_600.0
"""Seconds between two deletions of old events there."""


class EventArchiving:
    """Archiving by the member that leads; the others do nothing.

    Only the one that archives shortens the log, so it knows of each event whether it may go. What
    a leader before it has archived it does not know, but the archive does: it reads the whole log
    once.

    Threads: a loop of its own looks, and blocks while services are slow.

    Args:
        leads: whether this member does.
        archive: None: the project database is of a class that keeps none.
        tidy: what else is tidied whenever old events are deleted; may raise ``Unavailable``.

    Attributes:
        loop: looks again and again; its owner starts and stops it.
    """

    def __init__(
        self,
        leads: Callable[[], bool],
        log: EventLog,
        archive: EventArchive | None,
        tidy: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._leads = leads
        self._log = log
        self._archive = archive
        self._tidy_more = tidy
        self._clock = clock
        self._archived: set[int] = set()  # of the events in the log
        self._tidied = float("-inf")
        self._outage = Outage(logger, "no event is archived: %s", "events are archived again")
        self._overflow = Outage(
            logger,
            "the event log is full, and its oldest events are lost: %s",
            "no events are lost any more",
        )
        self.loop = Loop("event archiving", self._turn, INTERVAL)
        if archive is None:
            logger.info("the project database keeps no events: only the latest %d are kept", KEPT)

    def _turn(self) -> float:
        if not self._leads():
            self._archived.clear()
            return INTERVAL
        missing: list[ClusterError] = []
        answer_of(self.look, missing)
        if missing:
            self._outage.failed(missing[0])
            return INTERVAL
        self._outage.answered()
        self.loop.rest(INTERVAL)  # a thousand events shall not be a thousand looks
        return REST

    def look(self) -> None:
        """Archive the events that are not, then delete the oldest that are from the log.

        Raises:
            Unavailable: ZooKeeper or the project database does not answer.
        """
        if self._archive is None:
            self._log.trim(KEPT)
            return
        numbers = self._log.numbers(self.loop.wake)
        self._archived.intersection_update(numbers)
        try:
            self._copy([each for each in numbers if each not in self._archived], self._archive)
        except Unavailable as error:
            self._make_room(numbers, error)
            raise
        self._overflow.answered()
        if len(numbers) > KEPT:
            self._log.trim(KEPT, self._archived)
        if self._clock() - self._tidied >= TIDYING:
            self._tidy(self._archive)

    def _copy(self, numbers: list[int], archive: EventArchive) -> None:
        for start in range(0, len(numbers), READ_AT_ONCE):
            part = numbers[start : start + READ_AT_ONCE]
            archive.append(self._log.found(part))
            self._archived.update(part)

    def _tidy(self, archive: EventArchive) -> None:
        """Delete what is old; what cannot be deleted waits for the next time, and stops nothing."""
        self._tidied = self._clock()
        for forget in (lambda: archive.trim(self._tidied - KEPT_FOR), self._tidy_more):
            try:
                forget()
            except Unavailable as error:
                logger.warning("what is old is not deleted from the archive: %s", error)

    def _make_room(self, numbers: list[int], error: Unavailable) -> None:
        """Delete the oldest events even if they are lost: ZooKeeper has all of them in memory."""
        if len(numbers) > MOST:
            if not self._archived.issuperset(numbers[:-MOST]):
                self._overflow.failed(error)
            self._log.trim(MOST)
