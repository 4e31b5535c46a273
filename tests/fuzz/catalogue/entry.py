"""What one kind of bad input is: how it is put in, and where it must be shown."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.fuzz.grip import Grip


class Place(StrEnum):
    """Where an operator looks; one of an entry's places must show it."""

    ANSWER = "answer"  # whoever put it in was refused: a 4xx, a Fault, False, a closed connection
    UNREADABLE = "unreadable"  # Cluster.unreadable names the znode
    QUEUE = "queue"  # SlotQueues.unreadable() names the Redis key
    QUARANTINE = "quarantine"  # the XML-RPC's quarantine names the project
    LETTER = "letter"  # a dead letter holds it
    LOG = "log"  # a warning or an error in some log names it
    LISTED = "listed"  # the project is listed as any other: the fault harms nobody
    TASK = "task"  # the task stands in the database, where the page of tasks shows it
    RESULT = "result"  # the result is stored, and the page of results shows it
    FAILED = "failed"  # the project's task failed, with a log on the task's page
    GONE = "gone"  # the cluster put it away by itself, or wrote the right thing over it
    NOBODY = "nobody"  # nothing reads it, by design: to survive it is all


@dataclass(frozen=True)
class Put:
    """What came of putting something in.

    Attributes:
        token: what it is known by: a path, a key, a project, a part of its text; several with |
            between them.
        refused: whether whoever put it in was told that it is no good.
        said: the answer, for the report.
        data: what stands in a znode now.
    """

    token: str
    refused: bool = False
    said: str = ""
    data: bytes | None = None


@dataclass(frozen=True)
class Poison:
    """One kind of bad input.

    Attributes:
        surface: what it is put into.
        name: unique within its surface.
        put: puts it in.
        shown: one of these must show it.
        spot: two that share a spot are not put in together: one would cover the other.
        mend: what an operator does once it was shown, where it takes a shared thing away.
        stage: "visit" for what only a takeover reads; it is put in while a fourth scheduler runs.
    """

    surface: str
    name: str
    put: Callable[[Grip], Put]
    shown: tuple[Place, ...]
    spot: str = ""
    mend: Callable[[Grip], None] | None = None
    stage: str = "crawl"

    def __str__(self) -> str:
        return f"{self.surface}: {self.name}"
