"""How slots come into a scheduler's memory and leave it."""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from pyspider_zk.hooks.gate import Gate
from pyspider_zk.hooks.handoff import Part, is_clean, slot_record
from pyspider_zk.hooks.intake import Intake
from pyspider_zk.hooks.ownership import Ownership
from pyspider_zk.queues.api import SlotRecords

logger = logging.getLogger("scheduler")


class ProjectSet(Protocol):
    """What the scheduler does with the projects of slots."""

    def load_slot(self, slot: int, parts: Mapping[str, Part]) -> None:
        """Bring a slot's projects into memory, with what their former owner left."""

    def forget_slots(self, slots: Collection[int]) -> None:
        """Drop the projects of slots from memory, with what was selected and not sent yet."""

    def parts(self, slots: Collection[int]) -> dict[str, Part]:
        """Return what no database holds of the projects of slots, by project."""


class Holdings:
    """Makes what is in memory agree with what is owned.

    Threads: the scheduler loop only.
    """

    def __init__(
        self, gate: Gate, intake: Intake, records: SlotRecords, projects: ProjectSet
    ) -> None:
        self._gate = gate
        self._intake = intake
        self._records = records
        self._projects = projects

    def follow(self, ownership: Ownership) -> None:
        """Give up what is not owned any more, take what is owned newly."""
        view, held = ownership.view, self._gate.held
        lost = {slot: epoch for slot, epoch in held.items() if view.owned.get(slot) != epoch}
        planned = {slot: e for slot, e in lost.items() if view.releasing.get(slot) == e}
        self.give_up({slot: e for slot, e in lost.items() if slot not in planned}, planned=False)
        self.give_up(planned, planned=True)
        if view.releasing:
            ownership.released(view.releasing)
        self._take({slot: e for slot, e in view.owned.items() if slot not in held})

    def give_up(self, slots: Mapping[int, int], *, planned: bool) -> None:
        """Forget slots; in a planned move the next owner gets what no database holds.

        What was read and not acknowledged stays in the queues, for the next owner.
        """
        slots = dict(slots)
        if not slots:
            return
        self._intake.drop(slots)
        if planned and self._gate.all_open():
            self._save(slots, clean=True)
        self._projects.forget_slots(slots)
        for slot in slots:
            del self._gate.held[slot]
        logger.info("gave up %d slots, %d left", len(slots), len(self._gate.held))

    def save(self, slots: Collection[int]) -> bool:
        """Save what a successor of these slots needs should this member die.

        Returns:
            Whether it is saved; not if the gate is shut.
        """
        held = {slot: epoch for slot, epoch in self._gate.held.items() if slot in slots}
        if held and not self._gate.all_open():
            return False
        if held:
            self._save(held, clean=False)
        return True

    def _take(self, slots: Mapping[int, int]) -> None:
        if not slots:
            return
        records = self._records.load_many(slots)
        self._intake.take(slots)
        for slot, epoch in slots.items():
            self._gate.held[slot] = epoch
            self._projects.load_slot(slot, _usable_parts(records.get(slot), epoch))
        logger.info("took %d slots, %d held", len(slots), len(self._gate.held))

    def _save(self, slots: Mapping[int, int], *, clean: bool) -> None:
        """Save the slots that have projects; of the others nothing must be left to mislead."""
        by_slot: dict[int, dict[str, Part]] = {}
        for name, part in self._projects.parts(slots).items():
            by_slot.setdefault(self._gate.slot(name), {})[name] = part
        self._records.drop_many(slots.keys() - by_slot.keys())
        self._records.save_many(
            {slot: slot_record(slots[slot], clean, parts) for slot, parts in by_slot.items()}
        )


def _usable_parts(record: Mapping[str, Any] | None, epoch: int) -> dict[str, Part]:
    if record is None:
        return {}
    clean = is_clean(record, epoch)
    return {name: {**part, "clean": clean} for name, part in record["projects"].items()}
