"""All names that more than one process must agree on: queues and znodes."""

import re
from dataclasses import dataclass
from enum import StrEnum

from pyspider_zk.errors import BadMessage

PROJECT_NAME_LIMIT = 64
_PROJECT_NAME = re.compile(r"\w+")


class Kind(StrEnum):
    """The two kinds of messages a scheduler reads; the values are pyspider's queue names."""

    NEWTASK = "newtask_queue"
    STATUS = "status_queue"


def check_project_name(name: object) -> str:
    """Return the name if pyspider allows it for a project.

    The rule is pyspider's ``verify_project_name``: word characters only, 64 at most. The empty
    name, which that function lets through, is refused as well.

    Raises:
        BadMessage: naming the fault.
    """
    if not isinstance(name, str) or not _PROJECT_NAME.fullmatch(name):
        raise BadMessage(
            f"project name {name!r} is not allowed: use letters, digits and _ only, at least one"
        )
    if len(name) > PROJECT_NAME_LIMIT:
        raise BadMessage(
            f"project name {name!r} is not allowed: it has {len(name)} characters,"
            f" the limit is {PROJECT_NAME_LIMIT}"
        )
    return name


def is_project_name(name: str) -> bool:
    """Tell whether pyspider allows a name for a project.

    Rows that were written past pyspider's editor may have any.
    """
    try:
        check_project_name(name)
    except BadMessage:
        return False
    return True


def slot_queue(kind: Kind, slot: int) -> str:
    """Return the name of a slot's queue."""
    return f"{kind.value}:{slot}"


@dataclass(frozen=True)
class Tree:
    """The znodes of one cluster, below its root."""

    root: str = "/pyspider-zk"

    @property
    def meta(self) -> str:
        """Protocol and slot count, fixed at the cluster's birth."""
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
        """How many schedulers an embedded cluster shall run."""
        return f"{self.root}/scale"

    @property
    def jobs(self) -> str:
        """Root of the job queue."""
        return f"{self.root}/jobs"

    @property
    def events(self) -> str:
        """Parent of the events; its data is what the leader has told already."""
        return f"{self.root}/events"
