"""Names of queues and keys that more than one process must agree on."""

from enum import StrEnum

from pyspider_zk.limits import MOST_SLOTS


class QueueKind(StrEnum):
    """The two kinds of messages a scheduler reads; the values are pyspider's queue names."""

    NEWTASK = "newtask_queue"
    STATUS = "status_queue"


SlotQueue = tuple[QueueKind, int]
"""A slot's queue of one kind."""

WORK_QUEUES = ("scheduler2fetcher", "fetcher2processor", "processor2result")
"""pyspider's queues between its other components."""

DEAD_LETTERS = "dead_letters"
LOG = "cluster_log"
"""The stream of what all components have warned of lately."""

PARKED_READY = "parked:ready"
"""The set of slots that have parked messages."""

SLOT_WAKE_UPS = "slot_wake_ups"
"""The stream of the names of slot queues that got a message while they were empty."""


def slot_queue(kind: QueueKind, slot: int) -> str:
    """Return the name of a slot's queue."""
    return f"{kind.value}:{slot}"


def ready_key(kind: QueueKind) -> str:
    """Return the key of the set of slots whose queue of this kind is not empty."""
    return f"{kind.value}:ready"


def record_key(slot: int) -> str:
    """Return the key of a slot's record."""
    return f"slot_record:{slot}"


def parked_key(slot: int) -> str:
    """Return the key of a slot's parked messages."""
    return f"parked:{slot}"


def wake_ups_key(queue: str) -> str:
    """Return the stream of the wake-ups of a queue between pyspider's components."""
    return f"{queue}:wake_ups"


def takers_key(queue: str) -> str:
    """Return the key of the set of those who have taken messages of a queue."""
    return f"{queue}:takers"


def taken_key(queue: str, taker: str) -> str:
    """Return the key of the messages that somebody has taken, by number."""
    return f"{queue}:taken:{taker}"


def deaths_key(queue: str) -> str:
    """Return the key of the numbers of deaths, by digest of the message."""
    return f"{queue}:deaths"


def history_key(day: str, project: str) -> str:
    """Return the key of what was counted of a project in a day; empty: of the cluster."""
    return f"history:{day}:{project}" if project else f"history:{day}"


def history_adder_key(adder: str) -> str:
    """Return the key of the number of the latest addition that somebody made to the history."""
    return f"history_adder:{adder}"


def slot_number(name: bytes) -> int | None:
    """Return the slot that a member of a ready set names, None if it names none."""
    if len(name) > len(str(MOST_SLOTS)) or not name.isdigit():
        return None
    slot = int(name)
    return slot if slot < MOST_SLOTS and str(slot).encode() == name else None
