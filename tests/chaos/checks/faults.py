"""Which faults hit whom, and for how long their consequences may be laid to them."""

from collections.abc import Iterable

from tests.chaos.history import Hit

SETTLE = 8.0
"""Seconds after the end of a fault of ZooKeeper or Redis until all members are well again."""

LOCKED = 5.0
"""Seconds after the end of a stop until a database that it left locked is asked again."""

REDIS_DELAY = 10.0
"""Seconds that a message may be on its way: so long before it went down, Redis may have lost it."""

HITS_LEASE = frozenset(
    {
        "kill",
        "stop",
        "drop_both",
        "drop_in",
        "drop_out",
        "drop_under_traffic",
        "leader_kill_in_rebalance",
    }
)
"""What makes a member lose its slots without being asked."""

HITS_ALL = frozenset({"zk_member_kill", "zk_leader_kill", "zk_throttled", "redis_restart"})
"""What may keep any member from renewing its lease, or from handing over."""


def meets(hit: Hit, since: float, until: float, settle: float = 0.0) -> bool:
    """Return whether a fault, with its settling, was there between two times."""
    return hit.start <= until and hit.end + settle >= since


def redis_was_down(hits: Iterable[Hit], since: float, until: float) -> bool:
    """Return whether what was sent between two times may have got lost between two components."""
    downs = (hit for hit in hits if hit.kind == "redis_restart")
    return any(meets(hit, since, until + REDIS_DELAY, 1.0) for hit in downs)
