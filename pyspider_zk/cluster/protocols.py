"""Protocols: which ones a version speaks, and which one a cluster may go by. Pure.

A protocol is what processes of one cluster must have in common: the form of what they write for
each other in ZooKeeper and in the message queue, and what they make of it. Every version speaks a
range of them. The cluster's meta record holds the one in use; only an operator raises it, once all
who run speak a higher one, and nobody lowers it.
"""

from collections.abc import Mapping

Protocols = tuple[int, int]
"""The lowest and the highest protocol that a version speaks."""

CLOSED = 0
"""In place of the protocol, while a cluster is restored or its slots are changed: nobody joins."""

FIRST = 1
"""What those speak who do not say what they speak."""

LOWEST, HIGHEST = FIRST, FIRST
"""What this version speaks. Who writes a record in a form that ``LOWEST`` does not have asks
``ProtocolWatch.current`` first."""

SPOKEN: Protocols = (LOWEST, HIGHEST)


def is_spoken(protocol: int, spoken: Protocols) -> bool:
    """Return whether a version speaks a protocol."""
    lowest, highest = spoken
    return lowest <= protocol <= highest


def text_of(spoken: Protocols) -> str:
    """Return a range in words."""
    lowest, highest = spoken
    return f"protocol {lowest}" if lowest == highest else f"protocols {lowest} to {highest}"


def highest_common(in_use: int, spoken: Mapping[str, Protocols]) -> int:
    """Return the highest protocol that all speak; at least the one in use.

    Args:
        spoken: by the name of who speaks it.
    """
    return max(in_use, min((highest for _, highest in spoken.values()), default=in_use))


def holding_back(protocol: int, spoken: Mapping[str, Protocols]) -> list[str]:
    """Return the names of those who do not speak a protocol."""
    return sorted(who for who, its in spoken.items() if not is_spoken(protocol, its))


def refusal(in_use: int, root: str, spoken: Protocols) -> str | None:
    """Return the message for a process that does not speak a cluster's protocol, or None."""
    if is_spoken(in_use, spoken):
        return None
    said = f"the cluster at {root} goes by protocol {in_use}, this version speaks {text_of(spoken)}"
    if in_use > spoken[1]:
        return f"{said}: it is too old, start the version that the others run"
    return (
        f"{said}: it is too new, first bring all processes to a version that speaks both, and run"
        " `pyspider-zk upgrade`"
    )
