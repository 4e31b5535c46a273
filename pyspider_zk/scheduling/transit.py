"""Transit of slots that are released again before they were taken: passes their handoff on."""

import logging
from collections.abc import Mapping
from typing import Any

from pyspider_zk.cluster.ownership import Ownership
from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.api import SlotRecords

logger = logging.getLogger("scheduler")


class Transit:
    """Passes on the records of slots that a member must release before it took them.

    A record is complete only for the epoch just after its own. A member that must release a slot
    before the first round after its grant has done nothing for it, so the record of the owner
    before is still current: it is saved again, for this epoch.

    Threads: the scheduler loop only.
    """

    def __init__(self, records: SlotRecords) -> None:
        self._records = records
        self._done: dict[int, int] = {}

    def released(
        self, ownership: Ownership, releasing: Mapping[int, int], held: Mapping[int, int]
    ) -> dict[int, int]:
        """Return which of the slots to release may be acknowledged, with the epochs.

        Args:
            held: those that were in memory at that epoch, and have been given up.

        Raises:
            Unavailable: the message queue is away; call again.
        """
        self._done = {slot: e for slot, e in self._done.items() if releasing.get(slot) == e}
        self._done |= {slot: e for slot, e in releasing.items() if held.get(slot) == e}
        for slot, epoch in releasing.items():
            if slot not in self._done and ownership.open(slot, epoch):
                self._pass_on(slot, epoch)
                self._done[slot] = epoch
        return dict(self._done)

    def _pass_on(self, slot: int, epoch: int) -> None:
        record = self._load(slot)
        if record is not None and record.get("clean") is True and record.get("epoch") == epoch - 1:
            self._records.save_many({slot: {**record, "epoch": epoch}})
            logger.info("slot %d was released before it was taken: its handoff is passed on", slot)

    def _load(self, slot: int) -> dict[str, Any] | None:
        try:
            record: object = self._records.load(slot)
        except BadMessage as error:
            logger.error("%s: the slot is passed on as after a death", error)
            return None
        return record if isinstance(record, dict) else None
