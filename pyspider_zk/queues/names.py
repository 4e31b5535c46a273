"""Names of the queues that more than one process must agree on."""

from enum import StrEnum


class QueueKind(StrEnum):
    """The two kinds of messages a scheduler reads; the values are pyspider's queue names."""

    NEWTASK = "newtask_queue"
    STATUS = "status_queue"


SlotQueue = tuple[QueueKind, int]
"""A slot's queue of one kind."""


def slot_queue(kind: QueueKind, slot: int) -> str:
    """Return the name of a slot's queue."""
    return f"{kind.value}:{slot}"
