"""Stages of an operation, and the projects that they apply to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspider_zk.errors import ClusterError
from pyspider_zk.jobs.operations import Work


class OperationRefused(ClusterError):
    """A project that an operation cannot be done to, now or later; the message says why."""


@dataclass
class ProjectTarget:
    """One project that an operation applies to.

    Attributes:
        batch: the id of the batch; what was done for it is not repeated.
        waited: it was put off before, by this claimant or another.
        waits: this claimant has put it off.
        version: the version of its row that the operation began with; set by the first stage.
        place: how far the stage came within the project, for its next call by this claimant.
    """

    project: str
    batch: str
    waited: bool = False
    waits: bool = False
    version: float | None = None
    place: Any = None


Results = dict[str, bool | Exception]
"""What came of a stage, by project: True: it is done; False: it must wait for a later round; or
why it failed. ``OperationRefused`` and ``BadMessage`` are final, other errors are tried again."""


class Stage(NamedTuple):
    """Stage: a part of an operation that is completed for all projects before the next one.

    Attributes:
        apply: applies it to a chunk of projects, no two of them the same. What it raises may be the
            fault of any of them: then it is applied again, to fewer.
        recorded: the stages before must be recorded in ZooKeeper when it begins.
        settle: seconds to wait before it begins.
        tidies: it cleans up after the stages before; it is the last one, and in any case applied
            to the projects that were done.
    """

    apply: Callable[[Sequence[ProjectTarget]], Results]
    recorded: bool = False
    settle: float = 0.0
    tidies: bool = False


class Operations(Protocol):
    """Implementation of each operation on chunks of projects; see ``scheduling/operations.py``."""

    def check_slot(self, standing: str, project: str) -> None:
        """Make sure that a project is not in another member's slot.

        Args:
            standing: the project that the job is named after.

        Raises:
            OperationRefused: it is.
        """

    def stages(self, work: Work) -> tuple[Stage, ...]:
        """Return the stages of a job's operation.

        Raises:
            BadRequest: there is no such operation, or it has other arguments.
        """
