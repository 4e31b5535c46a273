"""Rules about clocks. Pure. Times are seconds.

Ownership compares no clocks of different machines. But tasks become due, jobs are tried again and
calls by XML-RPC are accepted by them.
"""

from collections.abc import Iterator

from pyspider_zk.cluster.facts import ClusterFacts
from pyspider_zk.doctor.findings import Finding, failed, judged, warning

TOLERANCE, TOO_FAR = 2.0, 60.0
RECENT = 3600.0
_REMEDY = "let NTP (chrony, systemd-timesyncd) set the clocks of all machines"


def clock_finding(whose: str, ahead: float, latency: float = 0.0) -> Finding:
    """Judge a clock that was read.

    Args:
        whose: a phrase for it, "its clock".
        ahead: how far it is before ours.
        latency: how long the reading took: so much it may be off.
    """
    off = max(0.0, abs(ahead) - latency)
    direction = "ahead of" if ahead > 0 else "behind"
    told = f"{whose} is {abs(ahead):.1f} s {direction} this machine's"
    if off > TOO_FAR:
        return failed(f"{told}: tasks become due at the wrong time", _REMEDY)
    return judged(off <= TOLERANCE, f"{whose} agrees with this machine's", warning(told, _REMEDY))


def cluster_clock_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge the clocks of ZooKeeper and the members."""
    if facts.renewed:
        yield clock_finding("ZooKeeper's clock", *_zookeeper(facts))
    for member, joined in sorted(facts.joined.items()):
        ahead = facts.cluster.members[member].started - joined
        if ahead > TOLERANCE:  # it started before it joined
            yield clock_finding(f"the clock of member {member.number}, by ZooKeeper's,", ahead)
    if facts.told is not None and facts.now - facts.told[1] < RECENT:
        event, written = facts.told
        yield clock_finding(
            "the clock of who wrote the newest event, by ZooKeeper's,", event.at - written
        )


def _zookeeper(facts: ClusterFacts) -> tuple[float, float]:
    """Return how far it is ahead, and how old the newest renewal may be."""
    newest = max(facts.renewed, key=lambda member: facts.renewed[member])
    lease = facts.cluster.load(newest).lease
    return facts.renewed[newest] - facts.now, lease
