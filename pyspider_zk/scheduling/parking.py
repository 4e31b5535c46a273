"""Messages in flight, and those that are parked, of the slots that a member holds.

Threads: the scheduler loop only.
"""

import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import accumulate, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery, Parked, ParkingLot, ParkingMove, in_order
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.queue_sizes import PARKED_LIMIT
from pyspider_zk.tasks.columns import TaskKey

logger = logging.getLogger("scheduler")


class Disposition(Enum):
    """What came of a try to apply a message."""

    APPLIED = auto()
    WAITS_FOR_TASK = auto()
    """Until its task is no longer in flight."""
    WAITS_FOR_PACK = auto()
    """Where it is: one of the packs that came before it or with it may be that of its task."""
    WAITS_FOR_PROJECT = auto()
    """Until its project can be loaded, or behind others that wait for that."""


UNTRIED = (None, Disposition.WAITS_FOR_PROJECT)
"""What came of messages that nothing was done with."""


class InFlightMessage(Struct, eq=False):
    """A message: a new task or a status pack.

    Attributes:
        delivery: the message; a parked one has no body until it is read.
        parked: its name in the parking lot, if it came from there.
        is_checked: it is known to be a task, or a pack, of its slot.
        disposition: of its last try; None: it was not tried, or failed.
        reason: why it is to become a dead letter; empty: it is not.
        failures: how often it failed.
        due: when it is tried again, on the intake's clock.
    """

    delivery: Delivery
    parked: Parked | None = None
    is_checked: bool = False
    disposition: Disposition | None = None
    reason: str = ""
    failures: int = 0
    due: float = 0.0

    @property
    def key(self) -> TaskKey:
        """Project and id of its task; its body was checked."""
        return self.delivery.body["project"], self.delivery.body["taskid"]

    @property
    def is_applied(self) -> bool:
        """Whether it is to be acknowledged."""
        return self.disposition is Disposition.APPLIED and not self.reason

    @property
    def has_ended(self) -> bool:
        """Whether it is applied, or to become a dead letter."""
        return self.disposition is Disposition.APPLIED or bool(self.reason)

    @property
    def must_move(self) -> bool:
        """Whether it is to wait elsewhere than where it is."""
        if self.has_ended or self.disposition is Disposition.WAITS_FOR_PACK:
            return False
        return self.parked is None or self.disposition is Disposition.WAITS_FOR_TASK


LOOK = 30.0
"""Seconds between two reads of the lot.

A former owner that was suspended may park something after the next one has read the lot; and a
reply may be lost.
"""


class Parking:
    """The parked messages of the slots that a member holds.

    Args:
        limit: see ``PARKED_LIMIT``.
        clock: in seconds, for the time between reads.
    """

    def __init__(
        self,
        lot: ParkingLot,
        limit: int = PARKED_LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lot = lot
        self._limit = limit
        self._clock = clock
        self._next_look = float("-inf")
        self._slots: set[int] = set()
        self._full: set[int] = set()
        self._of_projects: dict[str, dict[Parked, InFlightMessage]] = {}
        self._of_tasks: dict[Parked, InFlightMessage] = {}
        self._latest: dict[TaskKey, Parked] = {}
        self._chosen: set[Parked] = set()  # whose turn was last
        self._owed: list[Parked] = []  # applied, but not deleted, because the lot was away

    def take(self, slots: Collection[int]) -> None:
        """Load what former owners parked for these slots; bodies of messages are loaded later."""
        found = self._lot.load(slots)
        self.drop(slots)
        self._load(found)
        self._slots |= set(slots)  # last: what cannot be read now is not looked at again either

    def drop(self, slots: Collection[int]) -> None:
        """Forget what is parked for these slots; the next owner finds it in the lot."""
        self._slots -= set(slots)
        for parked in [each for each in self._known() if each.slot in slots]:
            self._forget(parked)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is parked."""
        return not (self._of_projects or self._of_tasks)

    def look(self) -> None:
        """Read the lot again, if it is time."""
        self.settle_debts()
        now = self._clock()
        if now < self._next_look:
            return
        found, known = set(self._lot.load(self._slots)), set(self._known())
        self._load(in_order(found - known))
        for parked in known - found:
            self._forget(parked)
        self._next_look = now + LOOK

    def is_behind(self, project: str) -> bool:
        """Return whether messages of a project wait here that precede any new one."""
        latest_first = reversed(self._of_projects.get(project, {}).values())
        return any(not entry.failures and not entry.has_ended for entry in latest_first)

    def tasks(self) -> list[InFlightMessage]:
        """Return the messages that wait for tasks, in order."""
        return list(self._of_tasks.values())

    def messages(
        self, may_go: Callable[[str], bool], now: float, limit: int
    ) -> list[InFlightMessage]:
        """Return messages of the projects that may go on, in turns, each project's in order.

        They are ``limit`` at most, fewer if they are large. Who had a turn comes last next time.

        Args:
            now: only those come that are due by then.
        """
        going = [own for project, own in self._of_projects.items() if may_go(project)]
        due = [(entry for entry in own.values() if entry.due <= now) for own in going]
        chosen = self._fitting(list(islice(_in_turns(due), limit)))
        for project in dict.fromkeys(entry.parked.project for entry in chosen if entry.parked):
            self._of_projects[project] = self._of_projects.pop(project)
        self._unload_all_but(chosen)
        unread = (entry.parked for entry in chosen if entry.parked and entry.delivery.body is None)
        bodies = self._lot.fetch(unread)
        return [entry for entry in chosen if self._is_read(entry, bodies)]

    def _fitting(self, entries: list[InFlightMessage]) -> list[InFlightMessage]:
        """Return the first of these messages, as many as may be read at once."""
        parked = [entry.parked for entry in entries if entry.parked]
        sums = accumulate(self._lot.sizes(parked) if parked else ())
        return entries[: max(1, bisect_right(list(sums), caps.ROUND))]

    def _unload_all_but(self, chosen: list[InFlightMessage]) -> None:
        """Drop the bodies of what had its turn and was not applied: rounds may stop midway."""
        former, self._chosen = self._chosen, {entry.parked for entry in chosen if entry.parked}
        for parked in former - self._chosen:
            entry = self._of_projects.get(parked.project, {}).get(parked)
            if entry is not None and entry.disposition in UNTRIED:
                entry.delivery = replace(entry.delivery, body=None)

    def park(self, entries: Sequence[InFlightMessage]) -> list[InFlightMessage]:
        """Move messages that must wait into the lot; return those without room.

        One that is too large for the lot gets a reason to become a dead letter.

        Raises:
            Unavailable: it is unknown which were moved until the lot is read again.
        """
        entries, moves = self._moves(entries)
        try:
            found_room = self._lot.park(moves, self._limit)
        except Unavailable:
            self._next_look = float("-inf")
            raise
        left = []
        for entry, move, room in zip(entries, moves, found_room, strict=True):
            if room:
                self._moved(entry, move)
            else:
                left.append(entry)
        full = {entry.delivery.slot for entry in left}
        self._tell_full(full - self._full)
        self._full = (self._full - {move.target.slot for move in moves}) | full
        return left

    def remove(self, parked: Iterable[Parked]) -> None:
        """Delete what was applied, or later if the lot does not answer."""
        for each in parked:
            self._owed.append(each)
            self._forget(each)
        self.settle_debts()

    def settle_debts(self) -> None:
        """Delete what was applied while the lot did not answer."""
        if self._owed:
            self._lot.remove(self._owed)
            self._owed = []

    def reject(self, parked: Parked, reason: str) -> None:
        """Move a message that cannot be used to the dead letters."""
        self._lot.reject(parked, reason)
        self._forget(parked)
        logger.warning("parked message %s of slot %d is dead: %s", parked.tag, parked.slot, reason)

    def _known(self) -> list[Parked]:
        return [*self._of_tasks, *(each for own in self._of_projects.values() for each in own)]

    def _load(self, found: Sequence[Parked]) -> None:
        """Add parked messages; with their bodies if they wait for tasks, to merge others into."""
        bodies = self._lot.fetch([parked for parked in found if parked.taskid])
        for parked in found:
            if not parked.taskid or isinstance(bodies.get(parked), dict):
                self._add(_entry(parked, bodies.get(parked)))

    def _is_read(self, entry: InFlightMessage, bodies: dict[Parked, Any]) -> bool:
        """Load the body of an entry; forget an entry that is no longer parked."""
        parked = entry.parked
        if parked in bodies:
            entry.delivery = replace(entry.delivery, body=bodies[parked])
        elif parked is not None and entry.delivery.body is None:
            self._forget(parked)
            return False
        return True

    def _add(self, entry: InFlightMessage) -> None:
        parked = entry.parked
        if parked is None:
            return
        if parked.taskid:
            self._of_tasks[parked] = entry
            self._latest[parked.project, parked.taskid] = parked
        else:
            self._of_projects.setdefault(parked.project, {})[parked] = entry

    def _forget(self, parked: Parked) -> None:
        self._of_tasks.pop(parked, None)
        if self._latest.get((parked.project, parked.taskid)) == parked:
            del self._latest[parked.project, parked.taskid]
        own = self._of_projects.get(parked.project, {})
        own.pop(parked, None)
        if not own:
            self._of_projects.pop(parked.project, None)

    def _moves(
        self, entries: Iterable[InFlightMessage]
    ) -> tuple[list[InFlightMessage], list[ParkingMove]]:
        """Return the messages that can be moved, and their moves."""
        latest: dict[TaskKey, tuple[Parked, Any]] = {}
        movable, moves = [], []
        for entry in entries:
            try:
                moves.append(self._move(entry, latest))
                movable.append(entry)
            except BadMessage as error:
                entry.reason = str(error)
        return movable, moves

    def _move(
        self, entry: InFlightMessage, latest: dict[TaskKey, tuple[Parked, Any]]
    ) -> ParkingMove:
        """Return the move of a message.

        One that waits for a task is merged with the one that waited before: the later keys win.
        pyspider would apply one after the other, which leaves the same row.

        Raises:
            BadMessage: it is too large as it is written again, or together they are.
        """
        delivery, source = entry.delivery, entry.parked or entry.delivery
        project, taskid = entry.key
        if entry.disposition is not Disposition.WAITS_FOR_TASK:
            target = Parked(delivery.kind, delivery.slot, delivery.tag, project)
            encode(delivery.body)  # here, where the culprit is known: the lot refuses all at once
            return ParkingMove(source, target, delivery.body)
        key = (project, str(taskid))
        target = Parked(delivery.kind, delivery.slot, delivery.tag, *key)
        former, body = latest.get(key) or self._former(key)
        merged = {**body, **delivery.body}
        encode(merged)
        latest[key] = (target, merged)
        return ParkingMove(source, target, merged, None if former == target else former)

    def _former(self, key: TaskKey) -> tuple[Parked | None, Any]:
        parked = self._latest.get(key)
        return (None, {}) if parked is None else (parked, self._of_tasks[parked].delivery.body)

    def _moved(self, entry: InFlightMessage, move: ParkingMove) -> None:
        for gone in (move.replaced, entry.parked):
            if gone is not None:
                self._forget(gone)
        body = move.body if move.target.taskid else None
        self._add(_entry(move.target, body, entry.failures, entry.due))

    def _tell_full(self, slots: set[int]) -> None:
        for slot in slots:
            logger.error(
                "slot %d: no room for more messages in the parking lot (%d at most wait there, for"
                " projects in quarantine); they stay in the slot's queue, and publishers wait",
                slot,
                self._limit,
            )


def _entry(parked: Parked, body: Any, failures: int = 0, due: float = 0.0) -> InFlightMessage:
    delivery = Delivery(parked.kind, parked.slot, parked.tag, body)
    return InFlightMessage(delivery, parked, failures=failures, due=due)


def _in_turns(lines: Iterable[Iterator[InFlightMessage]]) -> Iterator[InFlightMessage]:
    """Yield one of each line, then the next of each."""
    waiting = deque(lines)
    while waiting:
        line = waiting.popleft()
        for entry in line:
            yield entry
            waiting.append(line)
            break
