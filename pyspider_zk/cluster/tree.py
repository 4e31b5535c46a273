"""The znodes of one cluster, and the names of its election's. Pure."""

from collections.abc import Iterable

from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId

MOST_DIGITS = 10  # of the number that ZooKeeper appends to a name


class Tree:
    """The znodes of one cluster, below its root.

    Attributes:
        meta: slot count, fixed when the cluster is created, and the protocol in use.
        ids: parent of the member numbers.
        members: parent of the members' ephemeral nodes.
        leases: parent of the leases.
        acks: parent of the releases.
        election: parent of the election's ephemeral sequential nodes.
        assignment: the one table: slot -> owner, epoch, next owner.
        components: parent of the components' presence.
        scale: how many schedulers an embedded cluster should run.
        settings: the settings of the whole cluster.
        slot_rates: the tasks per second by which the leader weighs slots.
        jobs: root of the job queue.
        events: parent of the events; its data is the checkpoint of the leader's events.
    """

    def __init__(self, root: str = "/pyspider-zk") -> None:
        self.root = root
        self.meta = f"{root}/meta"
        self.ids = f"{root}/ids"
        self.members = f"{root}/members"
        self.leases = f"{root}/leases"
        self.acks = f"{root}/acks"
        self.election = f"{root}/election"
        self.assignment = f"{root}/assignment"
        self.components = f"{root}/components"
        self.scale = f"{root}/scale"
        self.settings = f"{root}/settings"
        self.slot_rates = f"{root}/slot-rates"
        self.jobs = f"{root}/jobs"
        self.events = f"{root}/events"

    def member(self, member: object) -> str:
        """One member's ephemeral node."""
        return f"{self.members}/{member}"

    def lease(self, member: object) -> str:
        """One member's lease: its version counts the renewals, its data is the load."""
        return f"{self.leases}/{member}"

    def ack(self, member: object) -> str:
        """What one member has released, by slot and epoch."""
        return f"{self.acks}/{member}"

    def candidacy(self, name: str) -> str:
        """One election node."""
        return f"{self.election}/{name}"

    def component(self, kind: str, name: str) -> str:
        """One component's ephemeral node."""
        return f"{self.components}/{kind}/{name}"


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
