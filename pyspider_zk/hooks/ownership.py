"""What a scheduler needs from whoever decides about ownership."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pyspider_zk.config import Settings
from pyspider_zk.core.ownership import View
from pyspider_zk.core.records import Cluster, Load, Member


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
