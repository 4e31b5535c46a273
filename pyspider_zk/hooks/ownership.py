"""What a scheduler needs from whoever decides about ownership."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pyspider_zk.config import Settings
from pyspider_zk.core.jobs import Claimant
from pyspider_zk.core.ownership import View
from pyspider_zk.core.records import Cluster, Load, Member
from pyspider_zk.zookeeper.events import Events
from pyspider_zk.zookeeper.jobs import JobQueue


class Ownership(Protocol):
    """The scheduler's side of the coordinator; see ``zookeeper.coordinator.Coordinator``."""

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
    def jobs(self) -> JobQueue | None:
        """The cluster's job queue; None: nobody keeps jobs here."""

    @property
    def events(self) -> Events | None:
        """The cluster's event log; None if there is no job queue either."""

    @property
    def claimant(self) -> Claimant | None:
        """What this member claims jobs as, None while it is no member."""

    def start(self) -> None:
        """Join."""

    def stop(self) -> None:
        """Leave; all slots are free at once."""

    def open(self, slot: int, epoch: int) -> bool:
        """Tell whether an effect on a slot is allowed at this moment."""

    def beat(self) -> None:
        """Show that the scheduling loop runs."""

    def released(self, slots: Mapping[int, int]) -> None:
        """Tell that slots were given up."""

    def drain(self) -> None:
        """Ask for all slots to be moved away."""

    def cluster(self) -> Cluster:
        """Read the whole cluster."""


Weights = Callable[[], Mapping[int, int]]
Coordinate = Callable[[Settings, Member, Weights, Callable[[], Load]], Ownership]
