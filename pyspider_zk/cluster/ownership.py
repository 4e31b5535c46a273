"""Ownership, as a scheduler sees it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pyspider_zk.cluster.records import Cluster, Load, Member
from pyspider_zk.cluster.rules import View
from pyspider_zk.cluster.vital_signs import VitalSigns
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection


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
