"""Ownership, as a scheduler sees it: what it has, its renewals, and the fence."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from pyspider_zk.cluster.records import Cluster, Load, Member
from pyspider_zk.cluster.rules import View
from pyspider_zk.config import Settings
from pyspider_zk.errors import FenceClosed
from pyspider_zk.metrics.families import RENEWALS
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.zookeeper.connection import Connection


class VitalSigns:
    """Vital signs of one member. Threads: the coordinator's writes, any may read.

    Attributes:
        renewals: how long renewals of the lease took that succeeded.
        failures: how many failed.
        epoch: of the assignment that the member knows.
    """

    def __init__(self) -> None:
        self.renewals = RENEWALS.histogram()
        self.failures = 0
        self.epoch = 0
        self._epoch_since = time.monotonic()

    @property
    def epoch_age(self) -> float:
        """Seconds since the assignment changed."""
        return time.monotonic() - self._epoch_since

    def watch(self, renew: Callable[[], bool]) -> None:
        """Renew the lease, and note how that went.

        Args:
            renew: returns whether the lease was renewed; what it raises is raised.
        """
        began, is_renewed = time.monotonic(), False
        try:
            is_renewed = renew()
        finally:
            if is_renewed:
                self.renewals.observe(time.monotonic() - began)
            else:
                self.failures += 1

    def learned(self, epoch: int | None) -> None:
        """Note the epoch of the assignment, if one was read."""
        if epoch is not None and epoch != self.epoch:
            self.epoch, self._epoch_since = epoch, time.monotonic()


class Ownership(Protocol):
    """The scheduler's side of the coordinator; see ``cluster.coordinator.Coordinator``."""

    @property
    def view(self) -> View:
        """What this member owns."""

    @property
    def leading(self) -> bool:
        """Whether this member leads."""

    @property
    def alone(self) -> bool:
        """Whether, while draining, nobody could take the slots."""

    @property
    def vital_signs(self) -> VitalSigns:
        """How renewals go, and what this member knows."""

    @property
    def connection(self) -> Connection | None:
        """The connection to ZooKeeper; None: there is none."""

    @property
    def path(self) -> str | None:
        """The member's ephemeral znode, None while it is not a member."""

    def start(self) -> None:
        """Join."""

    @property
    def restart_delay(self) -> float:
        """For how many seconds this member's slots may wait for it, if it is restarted."""

    def stop(self, returns_within: float = 0.0) -> None:
        """Leave; all slots are free at once, or wait so many seconds for this number."""

    def open(self, slot: int, epoch: int) -> bool:
        """Return whether an effect on a slot is allowed at this moment."""

    def beat(self) -> None:
        """Show that the scheduling loop runs."""

    def released(self, slots: Mapping[int, int]) -> None:
        """Report slots that were given up."""

    def drain(self) -> None:
        """Request that all slots are moved away."""

    def cluster(self) -> Cluster:
        """Read the whole cluster."""


ActiveProjects = Callable[[], Mapping[int, int]]
Coordinate = Callable[[Settings, Member, ActiveProjects, Callable[[], Load]], Ownership]


class Fence:
    """The slots that a scheduler has in memory, and whether it may act on them now.

    Threads: the scheduler loop changes ``held``; any thread may call the rest.

    Attributes:
        held: slots that are in memory, with the epoch at which they were loaded.
        ownership: decides; None before the scheduler has joined, when nothing is open.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.held: dict[int, int] = {}
        self.ownership: Ownership | None = None

    def slot(self, project: str) -> int:
        """Return a project's slot."""
        return slot_of(project, self._slots)

    def holds(self, project: str) -> bool:
        """Return whether a project's slot is in memory."""
        return self.slot(project) in self.held

    def is_open(self, project: str) -> bool:
        """Return whether this member may act on a project at this moment."""
        return self.is_slot_open(self.slot(project))

    def epoch(self, project: str) -> int:
        """Return the epoch at which this member may act on a project now; 0: it may not."""
        return self._epoch_of(self.slot(project))

    def _epoch_of(self, slot: int) -> int:
        epoch = self.held.get(slot, 0)
        is_open = epoch and self.ownership is not None and self.ownership.open(slot, epoch)
        return epoch if is_open else 0

    def all_open(self) -> bool:
        """Return whether this member may act on all that it holds at this moment.

        One lease covers all slots, so one of them tells whether it is valid. It is asked last.
        """
        ownership, held = self.ownership, dict(self.held)
        if ownership is None or not held:
            return ownership is not None
        view = ownership.view
        is_ours = held.items() <= view.owned.items() or held.items() <= (
            view.owned.items() | view.releasing.items()
        )
        return is_ours and ownership.open(*next(iter(held.items())))

    def check(self, project: str) -> None:
        """Raise an error if an effect is not allowed.

        Raises:
            FenceClosed: the lease ended, or the slot is another member's now.
        """
        if not self.is_open(project):
            raise FenceClosed(f"slot {self.slot(project)} of project {project} is not ours now")

    def is_slot_open(self, slot: int) -> bool:
        """Return whether this member may act on the projects of a slot at this moment."""
        return self._epoch_of(slot) > 0
