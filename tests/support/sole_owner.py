"""Ownership of slots that a test decides, for schedulers without services."""

from collections.abc import Iterable, Mapping

from pyspider_zk.cluster.coordinator import VitalSigns
from pyspider_zk.cluster.records import Assignment, Cluster, Meta
from pyspider_zk.cluster.rules import View

FOREVER = float("inf")


class SoleOwner:
    """Ownership that the test decides, instead of a cluster.

    It stands in for ``cluster.coordinator.Coordinator``. A slot gets a higher epoch with every
    grant. There is no job queue: give claims to ``SlotScheduler.local_jobs``.
    """

    def __init__(self, slots: int, owned: Iterable[int] | None = None) -> None:
        self._slots = slots
        self.view = View({}, {}, FOREVER)
        self.leading = True
        self.alone = True
        self.vital_signs = VitalSigns()
        self.given_up: dict[int, int] = {}
        self.grant(range(slots) if owned is None else owned, epoch=1)

    connection = None
    path = None
    restart_delay = 0.0

    def grant(self, slots: Iterable[int], epoch: int) -> None:
        """Grant slots, as the leader does."""
        owned = {**self.view.owned, **dict.fromkeys(slots, epoch)}
        self.view = View(owned, self.view.releasing, self.view.lease_until)

    def ask_back(self, slots: Iterable[int]) -> None:
        """Request the release of slots in a planned move."""
        asked = {slot: self.view.owned[slot] for slot in slots}
        owned = {slot: epoch for slot, epoch in self.view.owned.items() if slot not in asked}
        self.view = View(owned, asked, self.view.lease_until)

    def lose_lease(self) -> None:
        """Close the fence."""
        self.view = self.view.renewed(-FOREVER)

    def renew_lease(self) -> None:
        """Open the fence again."""
        self.view = self.view.renewed(FOREVER)

    def start(self) -> None:
        """Do nothing."""

    def stop(self, returns_within: float = 0.0) -> None:  # noqa: ARG002 - nobody else is there
        """Give up all slots."""
        self.view = View({}, {})

    def open(self, slot: int, epoch: int) -> bool:
        """Return whether the test allows effects on a slot."""
        return self.view.open(slot, epoch, now=0.0)

    def beat(self) -> None:
        """Do nothing: nobody waits for it."""

    def released(self, slots: Mapping[int, int]) -> None:
        """Remember what was given up."""
        self.given_up.update(slots)
        releasing = {s: e for s, e in self.view.releasing.items() if slots.get(s) != e}
        self.view = View(self.view.owned, releasing, self.view.lease_until)

    def drain(self) -> None:
        """Do nothing: there is nobody to take the slots."""

    def cluster(self) -> Cluster:
        """Return a cluster without members."""
        return Cluster(Meta(self._slots), Assignment.vacant(self._slots))
