"""Stages of an operation, and the projects that they are done to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pyspider_zk.errors import ClusterError
from pyspider_zk.jobs.operations import Work


class OperationRefused(ClusterError):
    """A project that an operation cannot be done to, now or later; the message says why."""


@dataclass
class ProjectTarget:
    """One project that an operation is done to.

    Attributes:
        batch: the id of the batch; what was done for it is not done again.
        waited: it was put off before, by this claimant or another.
        waits: this claimant has put it off.
        version: the version of its row that the operation began with; set by the first stage.
    """

    project: str
    batch: str
    waited: bool = False
    waits: bool = False
    version: float | None = None


class Stage(NamedTuple):
    """A part of an operation that is through with all projects before the next one begins.

    Attributes:
        apply: does it to one project; returns False if it must wait for a later round.
        recorded: what came before must stand in ZooKeeper when it begins.
        settle: seconds to wait before it begins.
        tidies: it tidies up after the stages before; being the last one, it is done in any case
            to those projects that were done.
    """

    apply: Callable[[ProjectTarget], bool]
    recorded: bool = False
    settle: float = 0.0
    tidies: bool = False


class Operations(Protocol):
    """Knows what each operation does to one project; see ``scheduling/operations.py``."""

    def check_slot(self, standing: str, project: str) -> None:
        """Make sure that a project is not of a slot that is somebody else's.

        Args:
            standing: the project that the job is called after.

        Raises:
            OperationRefused: it is.
        """

    def stages(self, work: Work) -> tuple[Stage, ...]:
        """Return what a job's operation consists of.

        Raises:
            BadRequest: there is no such operation here, or it has other arguments.
        """
