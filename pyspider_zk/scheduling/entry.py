"""Message in flight, from when it is read until it is applied, parked or a dead letter."""

from enum import Enum, auto

from msgspec import Struct

from pyspider_zk.queues.api import Delivery, Parked
from pyspider_zk.queues.tasks import TaskKey


class Disposition(Enum):
    """What came of a try to apply a message."""

    APPLIED = auto()
    WAITS_FOR_TASK = auto()
    """Until its task is no longer in flight."""
    WAITS_FOR_PROJECT = auto()
    """Until its project can be loaded, or behind others that wait for that."""


class InFlightMessage(Struct, eq=False):
    """A message: a new task or a status pack.

    Attributes:
        delivery: the message; a parked one has no body until it is read.
        parked: its name in the parking lot, if it came from there.
        is_checked: it is known to be a task, or a pack, of its slot.
        outcome: of its last try; None: it was not tried, or failed.
        reason: why it is to become a dead letter; empty: it is not.
        failures: how often it failed.
        due: when it is tried again, on the intake's clock.
    """

    delivery: Delivery
    parked: Parked | None = None
    is_checked: bool = False
    outcome: Disposition | None = None
    reason: str = ""
    failures: int = 0
    due: float = 0.0

    @property
    def key(self) -> TaskKey:
        """Project and id of its task; its body was checked."""
        return self.delivery.body["project"], self.delivery.body["taskid"]

    @property
    def is_applied(self) -> bool:
        """Whether it is to be acknowledged."""
        return self.outcome is Disposition.APPLIED and not self.reason
