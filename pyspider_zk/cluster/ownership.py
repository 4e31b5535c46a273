"""Ownership, as a scheduler sees it: the coordinator that it asks, and the fence."""

from collections.abc import Callable, Mapping

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.records import Load, Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import FenceClosed
from pyspider_zk.projects.slots import slot_of

ActiveProjects = Callable[[], Mapping[int, int]]
Coordinate = Callable[[Settings, Member, ActiveProjects, Callable[[], Load]], Coordinator]


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
        self.ownership: Coordinator | None = None

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
