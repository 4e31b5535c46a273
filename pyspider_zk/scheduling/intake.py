"""Intake of messages from slot queues: read, apply, commit, then acknowledge.

A message that was not applied and committed stays unacknowledged in its queue or in the parking
lot; should this member die, the next owner finds it there. A message that must wait for something
else (a task in flight, a project in quarantine, its own next try) waits in the parking lot: in its
queue it would block others, and in the end what it waits for.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from pyspider_zk.errors import BadMessage, FenceClosed, Unavailable
from pyspider_zk.queues.api import Delivery, SlotQueues, published
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.tasks import TaskKey
from pyspider_zk.scheduling.entry import InFlightMessage
from pyspider_zk.scheduling.parking import Parking

logger = logging.getLogger("scheduler")

PAUSES = (10, 40, 160, 640)
"""How many rounds to wait after each failure of a message; after one more it is a dead letter.

With rounds of 0.1 s that is a minute and a half. That a database is unavailable is no failure of a
message.
"""

NO_ROOM = 10
"""Rounds until a message that found no room in the parking lot is tried again."""

PARKED_PER_ROUND = 100
"""How many parked messages are tried in a round at most; so many bodies are in memory."""

HELD = 10
"""How many times the limit of a round may be in memory, including messages that pause."""

Begun = Mapping[int, Mapping[str, int]]
"""By slot and tag, how many of the first tasks of a new-task message are applied already."""

NOTHING_BEGUN: Begun = MappingProxyType({})

Apply = Callable[[InFlightMessage], bool]
"""Function that applies an entry; it returns False if some of it is left for a later round."""


class Intake:
    """The unacknowledged messages of one member.

    A round reads; it runs the parked messages, the new tasks, the status packs and the tasks that
    were put off; it commits what that wrote to the task database; then it settles.

    Threads: the scheduler loop only.

    Args:
        pauses: see ``PAUSES``.

    Attributes:
        read_of: how many tasks of each slot the last read found; there may be more.
    """

    def __init__(
        self,
        queues: SlotQueues,
        parking: Parking,
        pauses: Sequence[int] = PAUSES,
    ) -> None:
        self.read_of: Counter[int] = Counter()
        self._was_full = False
        self._queues = queues
        self._parking = parking
        self._pauses = pauses
        self._waiting: dict[QueueKind, list[InFlightMessage]] = {kind: [] for kind in QueueKind}
        self._begun: dict[int, dict[str, int]] = {}
        self._released: list[InFlightMessage] = []
        self._done: list[InFlightMessage] = []
        self._may_be_unread = False
        self._again: set[SlotQueue] | None = None
        self._is_counting = True

    def take(self, slots: Collection[int], begun: Begun = NOTHING_BEGUN) -> None:
        """Read these slots from now on, beginning with what a former owner left.

        Args:
            begun: what the former owner said of its messages.
        """
        self._parking.take(slots)
        self._queues.take(slots)
        self._begun |= {slot: dict(tags) for slot, tags in begun.items() if tags}
        self._again = None

    def drop(self, slots: Collection[int]) -> None:
        """Stop reading these slots; messages without acknowledgement are left to the next owner."""
        self._queues.drop(slots)
        self._parking.drop(slots)
        for slot in slots:
            self._begun.pop(slot, None)
        for kind, entries in self._waiting.items():
            self._waiting[kind] = [entry for entry in entries if entry.delivery.slot not in slots]
        self._done = [entry for entry in self._done if entry.delivery.slot not in slots]
        self._released = [entry for entry in self._released if entry.delivery.slot not in slots]

    def begun(self, slots: Collection[int]) -> Begun:
        """Return what is applied of messages that are not wholly applied.

        Ask when all of it is committed. The messages stay in their queues.
        """
        found = {slot: dict(tags) for slot, tags in self._begun.items() if slot in slots}
        for entry in self._waiting[QueueKind.NEWTASK]:
            if entry.delivery.slot in slots and (count := entry.begun):
                found.setdefault(entry.delivery.slot, {})[entry.delivery.tag] = count
        return found

    @property
    def unsettled(self) -> set[int]:
        """The slots of messages that were applied and are not settled yet."""
        return {entry.delivery.slot for entry in [*self._done, *self._released]}

    @property
    def is_empty(self) -> bool:
        """Whether no message is here, neither to be applied nor to be settled."""
        places = (self._done, self._released, *self._waiting.values())
        return self._parking.is_empty and not any(places)

    @property
    def has_backlog(self) -> bool:
        """Whether a round left something to do: in the queues probably, or beyond its share."""
        return self._was_full or any(entry.rest != [] for entry in self.untried(QueueKind.NEWTASK))

    def untried(self, kind: QueueKind) -> Iterator[InFlightMessage]:
        """Yield the messages of a kind that the next run applies, in order."""
        return (entry for entry in self._waiting[kind] if not entry.pause)

    def is_behind(self, project: str) -> bool:
        """Return whether new messages of a project must wait behind those that are parked."""
        return self._parking.is_behind(project)

    def read(
        self,
        limit: int,
        *,
        due: Collection[SlotQueue] | None = None,
        is_extra: bool = False,
    ) -> None:
        """Read new messages, until about ``limit`` of each kind are to be applied.

        Packs first, so that the new tasks that were published before them are read as well.

        Args:
            due: the queues that may have new messages, as far as the caller knows; None: all.
            is_extra: this round does not count for messages that pause.
        """
        self._parking.look()
        self._released = []
        self._is_counting = not is_extra
        self.read_of.clear()
        self._was_full = False
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
            self._waiting[kind] += self._entries(kind, found)
            self._may_be_unread = len(found) >= room
            for delivery in found:
                self.read_of[delivery.slot] += _tasks_in(delivery)
            self._was_full |= len(found) >= room
        is_more_likely = self.read_of or not all(rooms.values())
        self._again = asked if is_more_likely else set()

    def _entries(self, kind: QueueKind, found: Sequence[Delivery]) -> Iterable[InFlightMessage]:
        """Return what was read, without the tasks that a former owner has applied."""
        entries = map(InFlightMessage, found)
        if not self._begun or kind is not QueueKind.NEWTASK:
            return entries
        begun = [*entries]
        for entry in begun:
            tags = self._begun.get(entry.delivery.slot, {})
            entry.skipped = tags.pop(entry.delivery.tag, 0)
        self._begun = {slot: tags for slot, tags in self._begun.items() if tags}
        return begun

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
        return asked

    def run(self, kind: QueueKind, apply: Apply) -> int:
        """Apply the messages of a kind that were read; return how many are applied.

        A pack waits for the new tasks that were published before or with it: the links of a page
        are stored before the page counts as done.

        Raises:
            FenceClosed: from ``apply``; what was applied before counts nevertheless.
            Unavailable: the message queue is away, or a database.
        """
        marks = self._marks() if kind is QueueKind.STATUS else {}
        entries = deque(self._waiting[kind])
        waiting: list[InFlightMessage] = []
        self._waiting[kind] = waiting
        done: list[InFlightMessage] = []
        try:
            while entries:
                entry = entries[0]
                is_early = marks and _is_early(entry, marks)
                finished = not is_early and self._try(entry, apply)
                entries.popleft()
                is_done = entry.reason or (finished and not entry.must_wait)
                (done if is_done else waiting).append(entry)
        finally:
            waiting += entries
            self._done += done
        return len(done)

    def run_parked(self, may_go: Callable[[str], bool], apply: Mapping[QueueKind, Apply]) -> int:
        """Apply parked messages of the projects that may go on, in the order of publishing."""
        done: list[InFlightMessage] = []
        stopped: set[str] = set()
        try:
            for entry in self._parking.messages(may_go, PARKED_PER_ROUND):
                project = entry.parked.project if entry.parked else ""
                if project in stopped:
                    continue
                if not self._try(entry, apply[entry.delivery.kind]):
                    stopped |= set() if entry.failures else {project}
                elif entry.must_wait and not entry.reason:
                    self._released.append(entry)
                else:
                    done.append(entry)
        finally:
            self._done += done
        return len(done)

    def run_put_off(self, apply: Callable[[Any], bool]) -> int:
        """Apply tasks that were put off and need not wait any longer; return how many that were."""
        done: list[InFlightMessage] = []
        try:
            for entry in self._parking.tasks():
                if self._try(entry, lambda entry: apply(entry.delivery.body)):
                    entry.applied.append(entry.delivery.body)
                    done.append(entry)
            for entry in [*self._waiting[QueueKind.NEWTASK], *self._released]:
                self._try_put_off(entry, apply)
        finally:
            self._done += done
        return len(done)

    @contextmanager
    def setting_aside(self, slots: Collection[int]) -> Iterator[None]:
        """Leave the messages of these slots as they are while the block runs."""
        if not slots:
            yield
            return
        places = [self._done, self._released, *self._waiting.values()]
        aside = [[each for each in place if each.delivery.slot in slots] for place in places]
        for place in places:
            place[:] = [each for each in place if each.delivery.slot not in slots]
        try:
            yield
        finally:
            places = [self._done, self._released, *self._waiting.values()]
            for place, its in zip(places, aside, strict=True):
                place[:0] = its

    def fail(self, refused: Mapping[TaskKey, Exception]) -> None:
        """Let messages fail whose rows were refused; only those tasks of them are tried again.

        Args:
            refused: the tasks whose rows the database refused at the end of this round.
        """
        if refused:
            done, self._done = self._done, []
            for entry in done:
                if not self._has_failed(entry, refused):
                    self._done.append(entry)
                elif entry.parked is None:
                    self._waiting[entry.delivery.kind].append(entry)
        for entry in [*self._waiting[QueueKind.NEWTASK], *self._released]:
            self._has_failed(entry, refused)

    def settle(self) -> None:
        """Acknowledge what was applied and committed, and park messages that must wait."""
        done, self._done = self._done, []
        useless = [entry for entry in done if entry.reason]
        for entry in useless:
            if entry.parked is None:
                self._waiting[entry.delivery.kind].append(entry)  # until it is rejected
        self._finish([entry for entry in done if not entry.reason])
        entries = [
            entry
            for entry in [*self._released, *self._waiting[QueueKind.NEWTASK]]
            if entry.rest == [] and not entry.reason  # otherwise there is more to do
        ]
        entries += [e for e in self._waiting[QueueKind.STATUS] if e.held and not e.reason]
        moving = [entry for entry in entries if entry.must_wait]
        stay = self._park(moving)
        for entry in stay:
            entry.stay(NO_ROOM)
        settled = [entry for entry in entries if entry not in stay]
        self._leave_out(settled)
        self._finish([entry for entry in settled if entry.must_wait or not entry.fault])
        for entry in settled:
            if entry.fault and not entry.must_wait and not self._reject(entry, entry.fault):
                self._waiting[entry.delivery.kind].append(entry)
        self._leave_out([entry for entry in useless if self._reject(entry, entry.reason)])
        self._released = []

    def _has_failed(self, entry: InFlightMessage, refused: Mapping[TaskKey, Exception]) -> bool:
        """Return whether a task of a message is to be tried again, because its row was refused."""
        applied, entry.applied = entry.applied, []
        bad = [task for task in applied if (task["project"], task["taskid"]) in refused]
        if not bad or entry.reason not in ("", entry.fault):
            return False
        entry.reason = ""  # its items that are no tasks can wait
        if entry.rest is not None:
            entry.rest = [*bad, *entry.rest]
        return not self._is_given_up(entry, refused[bad[0]["project"], bad[0]["taskid"]])

    def _park(self, entries: Sequence[InFlightMessage]) -> Sequence[InFlightMessage]:
        """Park messages; return those that stay where they are.

        A Redis that is out of memory parks nothing until other messages are acknowledged.
        """
        try:
            return self._parking.park(entries)
        except Unavailable as error:
            logger.warning("%d messages could not be parked: %s", len(entries), error)
            return entries

    def _room(self, kind: QueueKind, limit: int) -> int:
        """Return how many to read; messages that pause must not keep out those that could go on."""
        waiting = self._waiting[kind]
        active = sum(not entry.pause for entry in waiting)
        return max(0, min(limit - active, HELD * limit - len(waiting)))

    def _marks(self) -> dict[int, int]:
        """Return for each slot when its oldest unapplied new task was published."""
        marks: dict[int, int] = {}
        times = [
            (entry.delivery.slot, entry.published)
            for entry in self._waiting[QueueKind.NEWTASK]
            if entry.rest != [] and not entry.pause
        ]
        if self._may_be_unread:
            slots = {entry.delivery.slot for entry in self._waiting[QueueKind.STATUS]}
            unread = self._queues.unread(QueueKind.NEWTASK, slots)
            times += [(slot, published(tag)) for slot, tag in unread.items()]
        for slot, time in times:
            marks[slot] = min(marks.get(slot, time), time)
        return marks

    def _try(self, entry: InFlightMessage, apply: Apply) -> bool:
        """Apply a message; return whether nothing is left to apply, maybe because it is useless."""
        if entry.pause:
            entry.pause -= self._is_counting
            return False
        if entry.reason:
            return True
        try:
            return apply(entry)
        except (FenceClosed, Unavailable):
            raise
        except BadMessage as error:
            entry.reason = str(error)
            return True
        except Exception as error:
            logger.exception(
                "%s:%d, try %d", entry.delivery.kind, entry.delivery.slot, entry.failures + 1
            )
            return self._is_given_up(entry, error)

    def _is_given_up(self, entry: InFlightMessage, error: Exception) -> bool:
        """Count a failure; return whether it was the last one. Otherwise let the message wait."""
        entry.failures += 1
        if entry.failures > len(self._pauses):
            entry.reason = f"failed {entry.failures} times: {error!r}"
            return True
        entry.pause = self._pauses[entry.failures - 1]
        if entry.parked is None:
            entry.hold()
        return False

    def _try_put_off(self, entry: InFlightMessage, apply: Callable[[Any], bool]) -> None:
        untried = deque(entry.put_off)
        left: list[Any] = []
        try:
            while untried:
                into = entry.applied if self._applied(untried[0], apply) else left
                into.append(untried[0])
                untried.popleft()
        finally:
            entry.put_off = [*left, *untried]

    def _applied(self, task: Any, apply: Callable[[Any], bool]) -> bool:
        """Apply a task; one that fails waits in the parking lot for its next try."""
        try:
            return apply(task)
        except (FenceClosed, Unavailable):
            raise
        except Exception:
            logger.exception("task %.200r, put off, try 1", task.get("taskid"))
            return False

    def _reject(self, entry: InFlightMessage, reason: str) -> bool:
        """Move a message to the dead letters; one without room there does not block the others.

        A Redis that is out of memory accepts no dead letter until other messages are acknowledged.
        """
        try:
            if entry.parked is None:
                self._queues.reject(entry.delivery, reason)
            else:
                self._parking.reject(entry.parked, reason)
        except Unavailable:
            return False
        return True

    def _finish(self, entries: Sequence[InFlightMessage]) -> None:
        """Drop messages that were applied, parked or moved to the dead letters."""
        with suppress(Unavailable):  # the acknowledgement is repeated in the next round
            self._parking.remove([entry.parked for entry in entries if entry.parked])
        self._queues.acknowledge([entry.delivery for entry in entries if entry.parked is None])

    def _leave_out(self, entries: Sequence[InFlightMessage]) -> None:
        if not entries:
            return
        gone = set(map(id, entries))
        for kind, waiting in self._waiting.items():
            self._waiting[kind] = [entry for entry in waiting if id(entry) not in gone]


def _tasks_in(delivery: Delivery) -> int:
    """Return how many tasks a message has; one of which not all is usual is rare."""
    usual = delivery.usual
    return len(usual.tasks) if usual is not None and usual.tasks else 1


def _is_early(entry: InFlightMessage, marks: Mapping[int, int]) -> bool:
    """Return if a pack must wait for new tasks of its slot; those of one call share a time."""
    mark = marks.get(entry.delivery.slot)
    return mark is not None and entry.published >= mark
