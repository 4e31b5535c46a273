"""Transfer of slots: loads those that are granted, gives up those that are lost.

Threads: the scheduler loop only.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from typing import Any

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import BadMessage, DatabaseAway, FenceClosed
from pyspider_zk.queues.api import SlotRecords, WorkQueues
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.message_applier import MessageApplier
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.slot_record import Part, is_clean, read_record, slot_record, writable
from pyspider_zk.scheduling.slot_seals import SlotSeals

logger = logging.getLogger("scheduler")

SLOTS_PER_TAKE = 16
"""How many slots' records are in memory at a time: with busy projects each has some MB."""

SLOTS_PER_SAVE = 64
"""How many slots' records are saved at least between two signs of life."""

MOST_SAVES = 16
"""How many passes over all projects it takes to save everything, at most."""


class Handover:
    """Handover of slots: keeps the memory in step with the ownership.

    Args:
        applier: commits and acknowledges what was applied.
        seals: in the task database; a slot is sealed before anything of it is loaded.
        work: tells which tasks an owner that died has sent.
        beat: shows that the loop runs.
    """

    def __init__(
        self,
        fence: Fence,
        intake: Intake,
        records: SlotRecords,
        projects: ProjectSet,
        applier: MessageApplier,
        seals: SlotSeals,
        work: WorkQueues,
        beat: Callable[[], None],
    ) -> None:
        self._applier = applier
        self._seals = seals
        self._work = work
        self._fence = fence
        self._intake = intake
        self._records = records
        self._projects = projects
        self._beat = beat
        self._given_up: dict[int, int] = {}
        self._released: dict[int, int] = {}  # of those that are to be, with the epochs

    def follow(self, ownership: Coordinator) -> None:
        """Give up slots that are no longer owned, and take the new ones."""
        view, held = ownership.view, self._fence.held
        if view.owned == held and not view.releasing and not self._seals.broken:
            return
        lost = {slot: epoch for slot, epoch in held.items() if view.owned.get(slot) != epoch}
        broken = {slot: held[slot] for slot in self._seals.broken if slot in held}
        self._seals.broken.clear()
        lost |= broken
        planned = {
            slot: epoch
            for slot, epoch in lost.items()
            if view.releasing.get(slot) == epoch and slot not in broken
        }
        self.give_up({slot: e for slot, e in lost.items() if slot not in planned}, planned=False)
        self.give_up(planned, planned=True)
        if view.releasing:
            ownership.released(self._release(ownership, view.releasing))
        self._take({slot: e for slot, e in view.owned.items() if slot not in held})

    def give_up_all(self, ownership: Coordinator, *, planned: bool) -> None:
        """Drop all slots, before the member leaves; those granted but not taken are passed on."""
        self.give_up(self._fence.held, planned=planned)
        if planned:
            granted = {**ownership.view.owned, **ownership.view.releasing}
            self._release(ownership, granted)

    def give_up(self, slots: Mapping[int, int], *, planned: bool) -> None:
        """Drop slots; in a planned move the next owner gets the state that no database holds.

        Messages that were read and not acknowledged stay in the queues for the next owner.
        """
        slots = dict(slots)
        if not slots:
            return
        clean = self._finished(slots) if planned else {}
        self._intake.drop(slots)
        if clean:
            self._save(clean, clean=True)
        self._projects.forget_slots(slots)
        for slot in slots:
            self._given_up[slot] = self._fence.held.pop(slot)
        logger.info("gave up %d slots, %d left", len(slots), len(self._fence.held))

    def _release(self, ownership: Coordinator, releasing: Mapping[int, int]) -> dict[int, int]:
        """Return which of the slots to release may be acknowledged, with the epochs.

        A record is complete only for the epoch just after its own. A slot that must be released
        before the first round after its grant was never taken, so the record of the owner before is
        still current: it is passed on, saved again for this epoch.

        Raises:
            Unavailable: the message queue is away; call again.
        """
        self._released = {slot: e for slot, e in self._released.items() if releasing.get(slot) == e}
        for slot, epoch in releasing.items():
            if self._given_up.get(slot) == epoch:
                self._released[slot] = epoch
            elif slot not in self._released and ownership.open(slot, epoch):
                self._pass_on(slot, epoch)
                self._released[slot] = epoch
        return dict(self._released)

    def _pass_on(self, slot: int, epoch: int) -> None:
        record = self._records.load(slot)
        if record is not None and is_clean(record, epoch):
            self._records.save_many({slot: {**record, "epoch": epoch}})
            logger.info("slot %d was released before it was taken: its handoff is passed on", slot)

    def _finished(self, slots: Mapping[int, int]) -> dict[int, int]:
        """Commit what was applied; return the slots of which all of it is committed.

        The next owner of another one starts as after a death, because memory is ahead of the rows.
        """
        try:
            self._applier.finish()
        except (DatabaseAway, FenceClosed) as error:
            logger.warning("slots are given up with uncommitted tasks: %s", error)
        unfinished = self._applier.unfinished()
        return {slot: epoch for slot, epoch in slots.items() if slot not in unfinished}

    def save(self, slots: Collection[int]) -> bool:
        """Save what the next owner of these slots needs if this member dies.

        Returns:
            Whether it is saved; not if the fence is closed.
        """
        held = {slot: epoch for slot, epoch in self._fence.held.items() if slot in slots}
        return self._save(held, clean=False)

    def _take(self, slots: Mapping[int, int]) -> None:
        slots = self._seals.take(slots)
        find_tasks = cache(partial(self._find_tasks, slots))
        for some in _groups(slots, SLOTS_PER_TAKE):
            self._beat()
            self._take_some({slot: slots[slot] for slot in some}, find_tasks)
        if slots:
            logger.info("took %d slots, %d held", len(slots), len(self._fence.held))

    def _take_some(self, slots: Mapping[int, int], find_tasks: Callable[[], None]) -> None:
        loaded = self._records.load_many(slots)
        records = {slot: self._current(slot, epoch, loaded) for slot, epoch in slots.items()}
        if any(self._has_died(slot, epoch, records[slot]) for slot, epoch in slots.items()):
            find_tasks()
        self._intake.take(slots)  # after all that may fail: what it reads must be of held slots
        for slot, epoch in slots.items():
            self._fence.held[slot] = epoch
            parts, faults = read_record(records[slot], epoch)
            if faults:
                logger.error("record of slot %d: not used: %s", slot, "; ".join(faults)[:500])
            self._projects.load_slot(slot, parts)

    def _has_died(self, slot: int, epoch: int, record: dict[str, Any] | None) -> bool:
        """Return whether a former owner may have died, and left tasks under way."""
        if record is None:
            return self._projects.has_any(slot)
        return not is_clean(record, epoch)

    def _find_tasks(self, slots: Collection[int]) -> None:
        """Find the tasks that are with fetchers and processors.

        It is asked after the slots were sealed, when an owner that died can commit nothing any
        more. Projects of slots that were taken before may still wait for a database.

        Args:
            slots: those that are being taken.
        """
        self._projects.expect(self._work.under_way(), {*self._fence.held, *slots})

    def _current(
        self, slot: int, epoch: int, loaded: Mapping[int, dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Return a slot's record; it is out of date if we took the slot at this epoch before."""
        record = loaded.get(slot)
        if record is None or self._given_up.get(slot) != epoch:
            return record
        return {**record, "clean": False}

    def _save(self, slots: Mapping[int, int], *, clean: bool) -> bool:
        """Save the records of slots, some at a time; return whether all of them are.

        The fence may close in between. Slots that are not saved are taken over as after a death.
        """
        for some in _groups(slots, max(SLOTS_PER_SAVE, -(-len(slots) // MOST_SAVES))):
            self._beat()
            if not self._fence.all_open():
                return False
            self._save_some({slot: slots[slot] for slot in some}, clean)
        return True

    def _save_some(self, slots: Mapping[int, int], clean: bool) -> None:
        """Save the slots that have projects, and delete the out-of-date records of the others."""
        by_slot: dict[int, dict[str, Part]] = {}
        for name, part in self._projects.parts(slots, whole=clean).items():
            by_slot.setdefault(self._fence.slot(name), {})[name] = part
        self._records.drop_many(slots.keys() - by_slot.keys())
        try:
            self._records.save_many(_records(slots, clean, by_slot))
        except BadMessage as error:
            logger.error("%s: what the record cannot hold is left out", error)
            kept = {slot: writable(parts) for slot, parts in by_slot.items()}
            self._records.save_many(_records(slots, clean, kept))


def _records(
    slots: Mapping[int, int], clean: bool, by_slot: Mapping[int, Mapping[str, Part]]
) -> dict[int, dict[str, Any]]:
    return {slot: slot_record(slots[slot], clean, own) for slot, own in by_slot.items()}


def _groups(slots: Iterable[int], size: int) -> Iterator[list[int]]:
    left = iter(slots)
    while some := list(islice(left, size)):
        yield some
