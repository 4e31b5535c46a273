"""Parking of messages: the parked messages of the slots that a member holds, in its memory."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Delivery, Parked, ParkingLot, ParkingMove
from pyspider_zk.queues.parking_names import in_order
from pyspider_zk.scheduling.entry import InFlightMessage

logger = logging.getLogger("scheduler")

PARKED_LIMIT = 10_000
"""How many messages may be parked for a slot; others stay in the slot queue, which fills."""

LOOK = 30.0
"""Seconds between two reads of the lot.

A former owner that was suspended may park something after the next one has read the lot; and a
reply may be lost.
"""


class Parking:
    """The parked messages and tasks of the slots that a member holds.

    Threads: the scheduler loop only.

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
        self._messages: dict[str, dict[Parked, InFlightMessage]] = {}
        self._tasks: dict[Parked, InFlightMessage] = {}
        self._latest: dict[tuple[str, str], Parked] = {}
        self._owed: list[Parked] = []  # applied, but not deleted, because the lot was away

    def take(self, slots: Collection[int]) -> None:
        """Load what former owners parked for these slots; bodies of messages are loaded later."""
        found = self._loaded(self._lot.load(slots))
        self.drop(slots)
        self._slots |= set(slots)
        for entry in found:
            self._add(entry)

    def drop(self, slots: Collection[int]) -> None:
        """Forget what is parked for these slots; the next owner finds it in the lot."""
        self._slots -= set(slots)
        for parked in [each for each in self._known() if each.slot in slots]:
            self._forget(parked)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is parked."""
        return not (self._messages or self._tasks)

    def look(self) -> None:
        """Read the lot again, if it is time."""
        self._settle_debts()
        now = self._clock()
        if now < self._next_look:
            return
        found, known = set(self._lot.load(self._slots)), set(self._known())
        for entry in self._loaded(in_order(found - known)):
            self._add(entry)
        for parked in known - found:
            self._forget(parked)
        self._next_look = now + LOOK

    def is_behind(self, project: str) -> bool:
        """Return whether messages of a project wait here that precede any new one."""
        parked = self._messages.get(project)
        if not parked:
            return False
        return any(not entry.failures for entry in parked.values())

    def tasks(self) -> list[InFlightMessage]:
        """Return the tasks that were put off, in order."""
        return list(self._tasks.values())

    def messages(self, may_go: Callable[[str], bool], limit: int) -> list[InFlightMessage]:
        """Return messages of the projects that may go on, in order, ``limit`` at most."""
        due: dict[Parked, InFlightMessage] = {}
        for project in [name for name in self._messages if may_go(name)]:
            due |= _due(self._messages[project])
        chosen = [due[parked] for parked in in_order(due)[:limit]]
        bodies = self._lot.fetch(
            entry.parked for entry in chosen if entry.parked and entry.delivery.body is None
        )
        return [entry for entry in chosen if self._is_whole(entry, bodies)]

    def park(self, entries: Sequence[InFlightMessage]) -> list[InFlightMessage]:
        """Move the parts of messages that must wait into the lot; return those without room.

        Raises:
            Unavailable: it is unknown which were moved until the lot is read again.
        """
        latest: dict[tuple[str, str], tuple[Parked, Any]] = {}
        moves = [self._move(entry, latest) for entry in entries]
        try:
            found_room = self._lot.park(moves, self._limit)
        except Unavailable:
            self._next_look = float("-inf")
            raise
        for entry, move, room in zip(entries, moves, found_room, strict=True):
            if room:
                self._moved(entry, move)
        left = [entry for entry, room in zip(entries, found_room, strict=True) if not room]
        self._tell_full({entry.delivery.slot for entry in left})
        return left

    def remove(self, parked: Iterable[Parked]) -> None:
        """Delete what was applied, or later if the lot does not answer."""
        for each in parked:
            self._owed.append(each)
            self._forget(each)
        self._settle_debts()

    def reject(self, parked: Parked, reason: str) -> None:
        """Move a message that cannot be used to the dead letters."""
        self._lot.park([ParkingMove(parked, reason=reason)])
        self._forget(parked)
        logger.warning("parked message %s of slot %d is dead: %s", parked.tag, parked.slot, reason)

    def _known(self) -> list[Parked]:
        return [*self._tasks, *(each for own in self._messages.values() for each in own)]

    def _settle_debts(self) -> None:
        if self._owed:
            self._lot.remove(self._owed)
            self._owed = []

    def _loaded(self, found: Sequence[Parked]) -> list[InFlightMessage]:
        """Return entries for parked messages; tasks with their bodies, to merge others into."""
        bodies = self._lot.fetch([parked for parked in found if parked.taskid])
        return [
            _entry(parked, bodies.get(parked))
            for parked in found
            if not parked.taskid or isinstance(bodies.get(parked), dict)
        ]

    def _is_whole(self, entry: InFlightMessage, bodies: dict[Parked, Any]) -> bool:
        """Load the body of an entry; forget an entry that is no longer parked."""
        parked = entry.parked
        if parked in bodies:
            entry.delivery = replace(entry.delivery, content=bodies[parked])
        elif parked is not None and entry.delivery.body is None:
            self._forget(parked)
            return False
        return True

    def _add(self, entry: InFlightMessage) -> None:
        parked = entry.parked
        if parked is None:
            return
        if parked.taskid:
            self._tasks[parked] = entry
            self._latest[parked.project, parked.taskid] = parked
        else:
            self._messages.setdefault(parked.project, {})[parked] = entry

    def _forget(self, parked: Parked) -> None:
        self._tasks.pop(parked, None)
        if self._latest.get((parked.project, parked.taskid)) == parked:
            del self._latest[parked.project, parked.taskid]
        own = self._messages.get(parked.project, {})
        own.pop(parked, None)
        if not own:
            self._messages.pop(parked.project, None)

    def _move(
        self, entry: InFlightMessage, latest: dict[tuple[str, str], tuple[Parked, Any]]
    ) -> ParkingMove:
        """Return the move of the part of an entry that must wait.

        A task that was put off before is merged into one request: the later keys win. pyspider
        would apply one after the other, which leaves the same row.
        """
        kind, slot, tag = entry.delivery.kind, entry.delivery.slot, entry.delivery.tag
        pieces: dict[Parked, object] = {
            Parked(kind, slot, tag, project): body for project, body in entry.held.items()
        }
        replaced: list[Parked] = []
        for task in entry.put_off:
            key = (task["project"], str(task["taskid"]))
            piece = Parked(kind, slot, tag, *key)
            former, body = latest.get(key) or self._former(key)
            if former is not None and former != piece:
                replaced.append(former)
            pieces[piece] = {**body, **task}
            latest[key] = (piece, pieces[piece])
        return ParkingMove(entry.parked or entry.delivery, pieces, replaced, entry.fault)

    def _former(self, key: tuple[str, str]) -> tuple[Parked | None, Any]:
        parked = self._latest.get(key)
        return (None, {}) if parked is None else (parked, self._tasks[parked].delivery.body)

    def _moved(self, entry: InFlightMessage, move: ParkingMove) -> None:
        for parked in move.replaced:
            self._forget(parked)
        if entry.parked is not None:
            self._forget(entry.parked)
        for piece, body in move.pieces.items():
            if piece.taskid:
                self._add(_entry(piece, body))
            else:
                self._add(_entry(piece, None, entry.failures, entry.pause))

    def _tell_full(self, slots: set[int]) -> None:
        for slot in slots - self._full:
            logger.error(
                "slot %d: no room for more messages in the parking lot (%d at most wait there, for"
                " projects in quarantine); they stay in the slot's queue, and publishers wait",
                slot,
                self._limit,
            )
        self._full = slots


def _entry(parked: Parked, body: Any, failures: int = 0, pause: int = 0) -> InFlightMessage:
    delivery = Delivery(parked.kind, parked.slot, parked.tag, body)
    return InFlightMessage(delivery, parked, failures=failures, pause=pause)


def _due(entries: dict[Parked, InFlightMessage]) -> dict[Parked, InFlightMessage]:
    """Return the entries to try now; count one round of the pause of the others."""
    due = {parked: entry for parked, entry in entries.items() if not entry.pause}
    for entry in entries.values():
        entry.pause = max(0, entry.pause - 1)
    return due
