"""Intake of messages from slot queues: read, apply, commit, then acknowledge.

A message that was not applied and committed stays unacknowledged in its queue or in the parking
lot; should this member die, the next owner finds it there. A message that must wait for something
else (a task in flight, a project in quarantine, its own next try) waits in the parking lot: in its
queue it would block others, and in the end what it waits for.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from pyspider_zk.errors import BadMessage, FenceClosed, Unavailable
from pyspider_zk.queues.api import SlotQueues, published
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.scheduling.parking import Disposition, InFlightMessage, Parking
from pyspider_zk.tasks.columns import TaskKey

logger = logging.getLogger("scheduler")

PAUSES = (1.0, 4.0, 16.0, 64.0)
"""Seconds to wait after each failure of a message; after one more it is a dead letter.

That a database is unavailable is no failure of a message.
"""

NO_ROOM = 1.0
"""Seconds until a message that found no room in the parking lot is tried again."""

HELD = 10
"""How many times the limit of a round may be in memory, including messages that pause."""

TOGETHER = 1000
"""How far apart the times of messages may be that were published in one call; see ``published``."""


Apply = Callable[[InFlightMessage], Disposition]
"""Function that applies a message.

Raises:
    BadMessage: it is no task.
    FenceClosed, Unavailable: it is not at fault.
"""


class Intake:
    """The unacknowledged messages of one member.

    A round reads; it runs the parked messages, the new tasks, the status packs and the tasks that
    were put off; it commits what that wrote to the task database; then it settles.

    Threads: the scheduler loop only.

    Args:
        pauses: see ``PAUSES``.
        clock: in seconds.

    Attributes:
        read_of: how many messages of each slot the last read found; there may be more.
        has_backlog: whether the last read found as much as it asked for.
    """

    def __init__(
        self,
        queues: SlotQueues,
        parking: Parking,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.read_of: Counter[int] = Counter()
        self.has_backlog = False
        self._queues = queues
        self._parking = parking
        self._pauses = pauses
        self._clock = clock
        self._waiting: dict[QueueKind, list[InFlightMessage]] = {kind: [] for kind in QueueKind}
        self._tried: list[InFlightMessage] = []  # since messages were settled last
        self._may_be_unread = False
        self._again: set[SlotQueue] | None = None
        self._limit = 0
        self._packs: dict[int, int] | None = None  # when the oldest of each slot came

    def take(self, slots: Collection[int]) -> None:
        """Read these slots from now on, beginning with what a former owner left."""
        self._parking.take(slots)
        self._queues.take(slots)
        self._again = None

    def drop(self, slots: Collection[int]) -> None:
        """Stop reading these slots; messages without acknowledgement are left to the next owner."""
        self._queues.drop(slots)
        self._parking.drop(slots)
        for entries in (self._tried, *self._waiting.values()):
            entries[:] = [entry for entry in entries if entry.delivery.slot not in slots]

    @property
    def unsettled(self) -> set[int]:
        """The slots of messages that were tried and are not settled yet."""
        return {entry.delivery.slot for entry in self._tried}

    @property
    def is_empty(self) -> bool:
        """Whether no message is here, neither to be applied nor to be settled."""
        return self._parking.is_empty and not any((self._tried, *self._waiting.values()))

    def untried(self, kind: QueueKind) -> Iterator[InFlightMessage]:
        """Yield the messages of a kind that the next run applies, in order."""
        now = self._clock()
        return (entry for entry in self._waiting[kind] if entry.due <= now and not entry.reason)

    def is_behind(self, project: str) -> bool:
        """Return whether new messages of a project must wait behind those that are parked."""
        return self._parking.is_behind(project)

    def is_ahead(self, entry: InFlightMessage) -> bool:
        """Return whether packs are unapplied that came before a new task or with it.

        Costs a round trip, once in a round. What is parked, or too many, wait for no packs.
        """
        if entry.parked is not None:
            return False
        if self._packs is None:
            slots = [each.delivery.slot for each in self._tried if _waits_for_pack(each)]
            is_room = len(slots) <= HELD // 2 * self._limit
            self._packs = self._oldest(QueueKind.STATUS, set(slots)) if is_room else {}
        oldest = self._packs.get(entry.delivery.slot)
        return oldest is not None and oldest <= published(entry.delivery.tag) + TOGETHER

    # -- reading ----------------------------------------------------------------------------------

    def read(self, limit: int, *, due: Collection[SlotQueue] | None = None) -> None:
        """Read new messages, until about ``limit`` of each kind are to be applied.

        Packs first, so that the new tasks that were published before them are read as well.

        Args:
            due: the queues that may have new messages, as far as the caller knows; None: all.
        """
        self._limit = limit
        self._parking.look()
        self.read_of.clear()
        self.has_backlog = False
        asked = self._asked(due)
        if asked is not None and not asked:
            return
        self._again = None  # if this fails
        rooms = {kind: self._room(kind, limit) for kind in (QueueKind.STATUS, QueueKind.NEWTASK)}
        for kind, room in rooms.items():
            ready = None if asked is None else {slot for its, slot in asked if its is kind}
            if ready == set():
                continue
            found = self._queues.read(kind, room, ready)
            if asked is not None:  # a pack's links came before it
                asked |= {(QueueKind.NEWTASK, delivery.slot) for delivery in found}
            self._waiting[kind] += map(InFlightMessage, found)
            self.read_of.update(delivery.slot for delivery in found)
            self._may_be_unread = len(found) >= room
            self.has_backlog |= self._may_be_unread
        is_more_likely = self.read_of or not all(rooms.values())
        self._again = asked if is_more_likely else set()

    def _asked(self, due: Collection[SlotQueue] | None) -> set[SlotQueue] | None:
        """Return the queues to read now; None: all.

        Nobody is woken by a message for a queue that is not empty. So what was read is read again
        until nothing is found, and with it the queues of which something waits here.
        """
        if due is None or self._again is None:
            return None
        asked = self._again.union(due)
        if asked:
            asked |= {(kind, e.delivery.slot) for kind, own in self._waiting.items() for e in own}
            new = self._waiting[QueueKind.NEWTASK]
            asked |= {(QueueKind.STATUS, e.delivery.slot) for e in new if _waits_for_pack(e)}
        return asked

    def _room(self, kind: QueueKind, limit: int) -> int:
        """Return how many to read; messages that wait must not keep out those that could go on."""
        active = sum(not _waits_for_pack(entry) for entry in self.untried(kind))
        return max(0, min(limit - active, HELD * limit - len(self._waiting[kind])))

    # -- applying ---------------------------------------------------------------------------------

    def run(self, kind: QueueKind, apply: Apply) -> None:
        """Apply the messages of a kind that were read.

        A pack waits for the new tasks that were published before or with it: the links of a page
        are stored before the page counts as done.

        Raises:
            FenceClosed: from ``apply``; what was applied before counts nevertheless.
            Unavailable: the message queue is away, or a database.
        """
        marks = self._marks() if kind is QueueKind.STATUS else {}
        left, self._waiting[kind] = self._waiting[kind], []
        untried = iter(left)
        entry: InFlightMessage | None = None
        try:
            for entry in untried:
                may_go = not _is_early(entry, marks) and self._try(entry, apply)
                (self._tried if may_go else self._waiting[kind]).append(entry)
                entry = None
        finally:
            self._waiting[kind] += [entry, *untried] if entry else untried

    def parked(self, may_go: Callable[[str], bool]) -> list[InFlightMessage]:
        """Return parked messages of the projects that may go on, as many as a round may read."""
        return self._parking.messages(may_go, self._clock(), len(QueueKind) * self._limit)

    def run_parked(self, entries: Iterable[InFlightMessage], apply: Apply) -> None:
        """Apply parked messages, but for those behind one whose project cannot go on after all."""
        stopped: set[str] = set()
        for entry in entries:
            project = entry.parked.project if entry.parked else ""
            if project in stopped or not self._try(entry, apply):
                continue
            if entry.disposition is Disposition.WAITS_FOR_PROJECT and not entry.reason:
                stopped.add(project)
            else:
                self._tried.append(entry)

    def run_put_off(self, apply: Apply) -> None:
        """Apply the new tasks whose tasks are no longer in flight."""
        self._packs = None
        for entry in self._parking.tasks():
            if self._try(entry, apply) and (entry.reason or entry.is_applied):
                self._tried.append(entry)
        for entry in self._tried:
            if _waits_for_pack(entry):
                self._try(entry, apply)

    def _try(self, entry: InFlightMessage, apply: Apply) -> bool:
        """Apply a message; return whether it needs settling."""
        if entry.due > self._clock():
            return False
        if entry.reason:
            return True
        try:
            entry.disposition = apply(entry)
        except (FenceClosed, Unavailable):
            raise
        except BadMessage as error:
            entry.reason = str(error)
        except Exception as error:
            queue = f"{entry.delivery.kind}:{entry.delivery.slot}"
            logger.exception("%s, try %d", queue, entry.failures + 1)
            self._failed(entry, error)
            return bool(entry.reason) or entry.parked is None
        return True

    def _failed(self, entry: InFlightMessage, error: Exception) -> None:
        """Count a failure, and let the message wait in the parking lot; or it was the last one."""
        entry.failures += 1
        entry.disposition = None
        if entry.failures > len(self._pauses):
            entry.reason = f"failed {entry.failures} times: {error!r}"
        else:
            entry.due = self._clock() + self._pauses[entry.failures - 1]

    def _marks(self) -> dict[int, int]:
        """Return for each slot when its oldest unapplied new task was published."""
        packs = self._waiting[QueueKind.STATUS] if self._may_be_unread else []
        return self._oldest(QueueKind.NEWTASK, {entry.delivery.slot for entry in packs})

    def _oldest(self, kind: QueueKind, unread: Collection[int]) -> dict[int, int]:
        """Return for each slot when its oldest unapplied message of a kind was published.

        Args:
            unread: the slots of which some may not be read yet.
        """
        tags = [(entry.delivery.slot, entry.delivery.tag) for entry in self.untried(kind)]
        tags += self._queues.unread(kind, unread).items() if unread else ()
        marks: dict[int, int] = {}
        for slot, tag in tags:
            marks[slot] = min(marks.get(slot, published(tag)), published(tag))
        return marks

    # -- settling ---------------------------------------------------------------------------------

    @contextmanager
    def setting_aside(self, slots: Collection[int]) -> Iterator[None]:
        """Leave the messages of these slots as they are while the block runs."""
        places = [self._tried, *self._waiting.values()] if slots else []
        aside = [[each for each in place if each.delivery.slot in slots] for place in places]
        for place in places:
            place[:] = [each for each in place if each.delivery.slot not in slots]
        try:
            yield
        finally:
            for place, its in zip(places, aside, strict=True):
                place[:0] = its

    def fail(self, refused: Mapping[TaskKey, Exception]) -> None:
        """Let messages fail whose rows were refused.

        Args:
            refused: the tasks whose rows the database refused at the end of this round.
        """
        for entry in [*self._tried] if refused else ():
            if not entry.is_applied or entry.key not in refused:
                continue
            self._failed(entry, refused[entry.key])
            if entry.parked is not None and not entry.reason:
                self._tried.remove(entry)  # it waits in the parking lot already

    def settle(self) -> None:
        """Acknowledge what was applied and committed, and park messages that must wait."""
        tried = [*self._tried]
        self._tried.clear()
        for entry in tried:
            if entry.parked is None:  # until it is known to be settled
                self._waiting[entry.delivery.kind].append(entry)
        applied = [entry for entry in tried if entry.is_applied]
        with suppress(Unavailable):  # the acknowledgement is repeated in the next round
            self._parking.remove([entry.parked for entry in applied if entry.parked])
        self._acknowledge(applied)
        moving = [entry for entry in tried if entry.must_move]
        stay = self._park(moving)
        for entry in stay:
            entry.due = max(entry.due, self._clock() + NO_ROOM)
        staying = set(map(id, stay))
        self._acknowledge([each for each in moving if id(each) not in staying and not each.reason])
        self._leave_out([entry for entry in tried if entry.reason and self._reject(entry)])

    def acknowledge_owed(self) -> None:
        """Acknowledge what was settled while the message queue was away, parked messages, too.

        Raises:
            Unavailable: it still is.
        """
        self._parking.settle_debts()
        self._queues.acknowledge([])

    def _acknowledge(self, entries: Sequence[InFlightMessage]) -> None:
        """Drop messages that were applied or parked from their slot queues."""
        self._leave_out(entries)
        self._queues.acknowledge([entry.delivery for entry in entries if entry.parked is None])

    def _park(self, entries: Sequence[InFlightMessage]) -> Sequence[InFlightMessage]:
        """Park messages; return those that stay where they are.

        A Redis that is out of memory parks nothing until other messages are acknowledged.
        """
        try:
            return self._parking.park(entries)
        except Unavailable as error:
            logger.warning("%d messages could not be parked: %s", len(entries), error)
            return entries

    def _reject(self, entry: InFlightMessage) -> bool:
        """Move a message to the dead letters; one without room there does not block the others.

        A Redis that is out of memory accepts no dead letter until other messages are acknowledged.
        """
        try:
            if entry.parked is None:
                self._queues.reject(entry.delivery, entry.reason)
            else:
                self._parking.reject(entry.parked, entry.reason)
        except Unavailable:
            return False
        return True

    def _leave_out(self, entries: Sequence[InFlightMessage]) -> None:
        gone = set(map(id, entries))
        for waiting in self._waiting.values() if gone else ():
            waiting[:] = [entry for entry in waiting if id(entry) not in gone]


def _waits_for_pack(entry: InFlightMessage) -> bool:
    return entry.disposition is Disposition.WAITS_FOR_PACK and not entry.reason


def _is_early(entry: InFlightMessage, marks: Mapping[int, int]) -> bool:
    """Return if a pack must wait for new tasks of its slot; those of one call share a time."""
    mark = marks.get(entry.delivery.slot)
    return mark is not None and published(entry.delivery.tag) >= mark
