"""Rules about ZooKeeper. Pure."""

from collections.abc import Iterator

from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import (
    Finding,
    failed,
    judged,
    milliseconds,
    ok,
    several,
    version_number,
    warning,
)
from pyspider_zk.listening import is_loopback
from pyspider_zk.zookeeper.facts import ServerAnswer, ZooKeeperFacts

OLDEST = (3, 5)
_WORDS = "let this machine ask it by the four-letter word srvr (4lw.commands.whitelist in zoo.cfg)"


def zookeeper_findings(facts: ZooKeeperFacts, settings: Settings) -> Iterator[Finding]:
    """Judge what is known of a ZooKeeper that let us in."""
    hosts = [server.address.rpartition(":")[0] or server.address for server in facts.servers]
    is_local = all(map(is_loopback, hosts))
    yield from _servers(facts.servers)
    yield _ensemble(facts, is_local)
    yield _versions(facts.servers)
    yield _latency(facts.latency, settings)
    yield from _session(facts.granted, settings)
    yield _login(settings, is_local)
    yield from _acls(facts, settings, is_local)
    yield _tls(settings, is_local)


def _servers(servers: tuple[ServerAnswer, ...]) -> Iterator[Finding]:
    for server in servers:
        if server.fault:
            yield warning(
                f"{server.address} cannot be reached ({server.fault}); another server answered",
                "start it, or correct its address in hosts",
            )


def _ensemble(facts: ZooKeeperFacts, is_local: bool) -> Finding:
    size = facts.ensemble
    if not size and any(server.mode == "standalone" for server in facts.servers):
        size = 1
    if not size:
        return warning(
            f"how many servers the ensemble has is not shown; hosts names {len(facts.servers)}",
            _WORDS,
        )
    quorum = size // 2 + 1
    told = f"an ensemble of {size}, quorum {quorum}"
    if size == 1:
        alone = "one server; while it is down no scheduler works"
        return judged(is_local, "one server, on this machine", warning(alone, "run three servers"))
    if len(facts.servers) < size:
        return warning(
            f"{told}; hosts names only {len(facts.servers)}: if those are down, the rest is unused",
            "name all servers in hosts",
        )
    even = warning(f"{told}: it survives no more losses than {size - 1}", "run an odd number")
    return judged(size % 2 == 1, told, even)


def _versions(servers: tuple[ServerAnswer, ...]) -> Finding:
    known = sorted({server.version for server in servers if server.version})
    if not known:
        return warning("the version is not shown: no server answers srvr", _WORDS)
    old = [version for version in known if version_number(version) < OLDEST]
    return judged(
        not old,
        f"version {', '.join(known)}",
        failed(f"version {', '.join(old)} is too old", "run ZooKeeper 3.5 or newer"),
    )


def _latency(latency: float, settings: Settings) -> Finding:
    told = f"a quorum answers in {milliseconds(latency)}"
    remedy = "give ZooKeeper a disk and a network of its own, or raise renewal and lease"
    if latency > settings.renewal:
        return failed(f"{told}, longer than a renewal: leases will end", remedy)
    slow = warning(f"{told}; a renewal of {settings.renewal:g} s leaves little room", remedy)
    return judged(latency <= settings.renewal / 4, told, slow)


def _session(granted: float, settings: Settings) -> Iterator[Finding]:
    told = f"a session of {granted:g} s"
    if granted <= settings.lease:
        yield failed(
            f"{told}, no longer than the lease of {settings.lease:g} s: a short interruption makes"
            " members join anew",
            "raise session, and maxSessionTimeout of the server",
        )
    else:
        yield ok(f"{told}, a lease of {settings.lease:g} s")
    if granted != settings.session:
        yield warning(
            f"{told} is granted, {settings.session:g} s were requested",
            "set session to it, or change minSessionTimeout or maxSessionTimeout of the server",
        )


def _login(settings: Settings, is_local: bool) -> Finding:
    if settings.username:
        return ok(f"the login {settings.username!r} ({settings.scheme}) is accepted")
    grade = warning if is_local else failed
    return grade(
        "no login: whoever reaches ZooKeeper may take the cluster over",
        "set username and password_file everywhere, then run `pyspider-zk protect`",
    )


def _acls(facts: ZooKeeperFacts, settings: Settings, is_local: bool) -> Iterator[Finding]:
    if not facts.exists:
        yield warning(f"there is nothing at {settings.root}", "start a scheduler, or correct root")
        return
    if facts.changeable:
        grade = warning if is_local and not settings.username else failed
        yield grade(
            f"everybody may change {several(facts.changeable)}",
            "run `pyspider-zk protect` with a login",
        )
    elif facts.readable:
        yield warning(f"everybody may read {several(facts.readable)}", "run `pyspider-zk protect`")
    else:
        yield ok(f"{settings.root} belongs to its login alone")


def _tls(settings: Settings, is_local: bool) -> Finding:
    return judged(
        settings.tls or is_local,
        "TLS" if settings.tls else "no TLS, on this machine only",
        warning(
            "no TLS: whoever listens to the network reads everything"
            + (", the password as well" if settings.username and not settings.tls else ""),
            "give ZooKeeper a secureClientPort, and set tls and tls_ca",
        ),
    )
