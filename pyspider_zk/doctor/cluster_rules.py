"""Rules about the processes of a cluster and their clocks. Pure. Times are seconds.

Ownership compares no clocks of different machines. But tasks become due, jobs are tried again and
calls by XML-RPC are accepted by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.protocols import SPOKEN, text_of
from pyspider_zk.cluster.records import Cluster, check_meta
from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import Finding, failed, judged, ok, several, warning
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.listening import is_loopback

FILES = ("sqlite", "sqlalchemy+sqlite")
TOLERANCE, TOO_FAR = 2.0, 60.0
RECENT = 3600.0
_REMEDY = "let NTP (chrony, systemd-timesyncd) set the clocks of all machines"


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster and its clocks. Times are seconds since the epoch.

    Attributes:
        joined: when each member registered, by ZooKeeper's clock.
        renewed: when each member's lease was renewed last, by ZooKeeper's clock.
        told: the newest event, and when it was written, by ZooKeeper's clock; None without one.
        now: by our clock.
    """

    cluster: Cluster
    joined: Mapping[MemberId, float]
    renewed: Mapping[MemberId, float]
    told: tuple[Event, float] | None
    now: float


def cluster_findings(
    cluster: Cluster, settings: Settings, databases: Mapping[str, str], version: str
) -> Iterator[Finding]:
    """Judge who takes part in a cluster.

    Args:
        databases: their URLs, by kind.
        version: of this process.
    """
    yield judged(
        bool(cluster.members),
        f"{len(cluster.members)} schedulers, protocol {cluster.meta.protocol}; this version speaks"
        f" {text_of(SPOKEN)}",
        warning("no scheduler runs: nothing is crawled", "start one"),
    )
    fault = check_meta(cluster.meta, settings.slots, settings.root)
    if fault:
        yield failed("this configuration cannot join", fault)
    yield _versions(cluster, version)
    yield from _protocol(cluster)
    if cluster.unreadable:
        yield warning(
            f"{several(cluster.unreadable)} cannot be read",
            "delete it, and restrict who can write to ZooKeeper",
        )
    yield from _files(cluster, databases)


def secret_finding(cluster: Cluster, settings: Settings) -> Finding:
    """Judge whether the schedulers' XML-RPC has a secret where it needs one."""
    addresses = [record.address for record in cluster.members.values()]
    is_local = all(map(is_loopback, map(host_of, addresses)))
    if settings.secret:
        return ok("this process knows a secret of the cluster")
    grade = warning if is_local else failed
    return grade(
        "this configuration has no secret: without one whoever reaches a scheduler's XML-RPC may"
        " delete every project",
        "make a file with one (`openssl rand -hex 32`, mode 600), and name it in secret_file",
    )


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
        newest = max(facts.renewed, key=lambda member: facts.renewed[member])
        ahead = facts.renewed[newest] - facts.now
        yield clock_finding("ZooKeeper's clock", ahead, facts.cluster.load(newest).lease)
    for member, joined in sorted(facts.joined.items()):
        ahead = facts.cluster.members[member].started - joined
        if ahead > TOLERANCE:  # it started before it joined
            yield clock_finding(f"the clock of member {member.number}, by ZooKeeper's,", ahead)
    if facts.told is not None and facts.now - facts.told[1] < RECENT:
        event, written = facts.told
        yield clock_finding(
            "the clock of who wrote the newest event, by ZooKeeper's,", event.at - written
        )


def host_of(address: str) -> str:
    """Return the host of ``host:port``, with or without ``https://``."""
    return address.rpartition("//")[2].rpartition(":")[0]


def _versions(cluster: Cluster, version: str) -> Finding:
    others = {f"member {each.number}": record.version for each, record in cluster.members.items()}
    for kind, found in cluster.components.items():
        others |= {
            f"{kind} on {each.host}, pid {each.pid}": each.version for each in found.values()
        }
    differing = [f"{who} has {its}" for who, its in sorted(others.items()) if its != version]
    return judged(
        not differing,
        f"everything runs version {version}",
        warning(
            f"this process has version {version}, {several(differing)}",
            "restart what is older with the new version",
        ),
    )


def _protocol(cluster: Cluster) -> Iterator[Finding]:
    """Tell that a higher protocol could be gone by, or who holds it back."""
    in_use, following = cluster.meta.protocol, cluster.next_protocol
    if cluster.can_be_raised:
        yield warning(
            f"all speak a higher protocol than {in_use}, which the cluster goes by",
            "once you will not go back to the version before, run `pyspider-zk upgrade`",
        )
    elif following > in_use:
        yield warning(
            f"some speak protocol {following}, and the cluster goes by {in_use}:"
            f" {several(cluster.held_back_by())} cannot go higher",
            "replace these by the newer version",
        )


def _files(cluster: Cluster, databases: Mapping[str, str]) -> Iterator[Finding]:
    hosts = {record.host for record in cluster.members.values()}
    files = [kind for kind, url in databases.items() if url.rpartition(f"+{kind}")[0] in FILES]
    if len(hosts) > 1 and files:
        yield failed(
            f"schedulers run on {several(sorted(hosts))}, and {several(files)} is a file: each"
            " machine has its own",
            "use PostgreSQL or MariaDB",
        )
