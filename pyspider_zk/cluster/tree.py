"""The znodes of one cluster, and the names of its election's. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId

MOST_DIGITS = 10  # of the number that ZooKeeper appends to a name


@dataclass(frozen=True)
class Tree:
    """The znodes of one cluster, below its root."""

    root: str = "/pyspider-zk"

    @property
    def meta(self) -> str:
        """Slot count, fixed when the cluster is created, and the protocol in use."""
        return f"{self.root}/meta"

    @property
    def ids(self) -> str:
        """Parent of the member numbers."""
        return f"{self.root}/ids"

    def number(self, number: int) -> str:
        """The identity that holds a member number."""
        return f"{self.ids}/{number}"

    @property
    def members(self) -> str:
        """Parent of the members' ephemeral nodes."""
        return f"{self.root}/members"

    def member(self, member: object) -> str:
        """One member's ephemeral node."""
        return f"{self.members}/{member}"

    @property
    def leases(self) -> str:
        """Parent of the leases."""
        return f"{self.root}/leases"

    def lease(self, member: object) -> str:
        """One member's lease: its version counts the renewals, its data is the load."""
        return f"{self.leases}/{member}"

    @property
    def acks(self) -> str:
        """Parent of the releases."""
        return f"{self.root}/acks"

    def ack(self, member: object) -> str:
        """What one member has released, by slot and epoch."""
        return f"{self.acks}/{member}"

    @property
    def election(self) -> str:
        """Parent of the election's ephemeral sequential nodes."""
        return f"{self.root}/election"

    def candidacy(self, name: str) -> str:
        """One election node."""
        return f"{self.election}/{name}"

    @property
    def assignment(self) -> str:
        """The one table: slot -> owner, epoch, next owner."""
        return f"{self.root}/assignment"

    @property
    def components(self) -> str:
        """Parent of the components' presence."""
        return f"{self.root}/components"

    def component(self, kind: str, name: str) -> str:
        """One component's ephemeral node."""
        return f"{self.components}/{kind}/{name}"

    @property
    def scale(self) -> str:
        """How many schedulers an embedded cluster should run."""
        return f"{self.root}/scale"

    @property
    def settings(self) -> str:
        """The settings of the whole cluster."""
        return f"{self.root}/settings"

    @property
    def slot_rates(self) -> str:
        """The tasks per second by which the leader weighs slots."""
        return f"{self.root}/slot-rates"

    @property
    def jobs(self) -> str:
        """Root of the job queue."""
        return f"{self.root}/jobs"

    @property
    def events(self) -> str:
        """Parent of the events; its data is the checkpoint of the leader's events."""
        return f"{self.root}/events"


def line_of(candidates: Iterable[str]) -> list[str]:
    """Return the election nodes in the queue: the one with the lowest sequence number leads.

    Raises:
        BadMessage: one is no election node.
    """
    return sorted(candidates, key=_place_of)


def leader_of(candidates: Iterable[str]) -> str | None:
    """Return the election node that leads, if there is one."""
    return next(iter(line_of(candidates)), None)


def candidate_of(name: str) -> MemberId:
    """Return the member that an election node belongs to.

    Raises:
        BadMessage: it is not an election node.
    """
    _place_of(name)
    return MemberId.parse(name.rpartition("-")[0])


def _place_of(name: str) -> int:
    digits = name.rpartition("-")[2]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS):
        raise BadMessage(f"{name[:100]!r} is no candidacy")
    return int(digits)
