"""Seals of the slots that a scheduler takes and writes to; see ``tasks.seals``."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import DatabaseAway, SealBroken, brief
from pyspider_zk.tasks.database import Seals, TaskDatabase
from pyspider_zk.tasks.seals import TABLE, SealsUnreadable

logger = logging.getLogger("scheduler")

PAUSE = 1.0
"""Seconds until a slot that could not be sealed is tried again."""


class SlotSeals:
    """Seals of slots in the task database, as the scheduler of these slots needs them.

    Threads: the scheduler loop only.

    Args:
        cluster: its root.

    Attributes:
        broken: held slots that turned out to be sealed at another epoch: by a newer owner, or
            because somebody changed the table. They must be given up, and taken anew if they are
            still ours, for others may have written meanwhile.
    """

    def __init__(
        self,
        database: Guarded,
        bulk: TaskDatabase,
        cluster: str,
        fence: Fence,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._bulk = bulk
        self._cluster = cluster
        self._fence = fence
        self._clock = clock
        self._refused: dict[int, int] = {}
        self._again = float("-inf")
        self.broken: set[int] = set()

    @contextmanager
    def checking(self, projects: Collection[str]) -> Iterator[Seals]:
        """Give the seals that a write for these projects needs; remember which are broken.

        Raises:
            SealBroken: they are, or cannot be read.
        """
        slots = {self._fence.slot(project) for project in projects}
        seals = Seals(self._cluster, {slot: self._fence.held.get(slot, 0) for slot in slots})
        try:
            yield seals
        except SealBroken as error:
            self.broken.update(error.slots)
            raise
        except SealsUnreadable as error:
            self.broken.update(slots)
            raise SealBroken(dict.fromkeys(slots)) from error

    def take(self, slots: Mapping[int, int]) -> dict[int, int]:
        """Seal slots, given with their epochs; return those whose rows may be loaded now.

        None while the task database is away. One that cannot be sealed is tried again from time
        to time.
        """
        now = self._clock()
        is_pausing = now < self._again
        asked = {s: e for s, e in slots.items() if not (is_pausing and self._refused.get(s) == e)}
        refused = self._seal(asked, now) if asked else {}
        taken = {slot: epoch for slot, epoch in asked.items() if slot not in refused}
        self._refused = {slot: e for slot, e in self._refused.items() if slot not in taken}
        return taken

    def _seal(self, slots: Mapping[int, int], now: float) -> Collection[int]:
        """Seal slots; return those that could not be sealed."""
        seals = Seals(self._cluster, slots)
        try:
            others: Mapping[int, object] = self._database.ask(partial(self._bulk.seal, seals))
        except DatabaseAway:
            return slots  # its breaker has logged it
        except SealsUnreadable as error:
            fault = brief(str(error))
            self._refuse(slots, f"{fault}; if the table {TABLE} is damaged, drop it", now)
            return slots
        if others:
            refused = {slot: slots[slot] for slot in others}
            self._refuse(refused, f"{self._told(others, slots)}; {self._remedy()}", now)
        return others

    def _refuse(self, slots: Mapping[int, int], reason: str, now: float) -> None:
        """Remember what is not ours, and log what is new."""
        if any(self._refused.get(slot) != epoch for slot, epoch in slots.items()):
            logger.error("%d slots cannot be taken: %s", len(slots), reason)
        self._refused = {**self._refused, **slots}
        self._again = now + PAUSE

    def _told(self, others: Mapping[int, object], asked: Mapping[int, int]) -> str:
        slot, found = next(iter(others.items()))
        return f"in the task database slot {slot} is sealed at {found!r:.50}, ours is {asked[slot]}"

    def _remedy(self) -> str:
        return (
            "if this goes on, ZooKeeper lost its data or another cluster has the same root: delete"
            f" the rows of {self._cluster!r} from the table {TABLE}, or give it another root"
        )
