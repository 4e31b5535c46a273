"""Rules about Redis. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspider_zk.config import Settings
from pyspider_zk.doctor.findings import (
    Finding,
    failed,
    judged,
    milliseconds,
    ok,
    version_number,
    warning,
)
from pyspider_zk.listening import is_loopback
from pyspider_zk.queues.redis_facts import RedisFacts

OLDEST = (6, 2)
FEWEST_SENTINELS = 3  # two may outvote one that is cut off
NEARLY_FULL, FULL = 0.8, 0.95  # of maxmemory


def redis_findings(facts: RedisFacts, settings: Settings) -> Iterator[Finding]:
    """Judge what is known of a Redis that let us in."""
    is_local = is_loopback(facts.host)
    yield from _sentinels(facts)
    yield _version(facts.version)
    yield _latency(facts.latency, settings)
    yield _entrance(facts, is_local)
    yield _tls(facts, is_local)
    if not facts.info:
        yield warning(
            "memory, eviction and persistence are not shown: our login may not use INFO",
            "ACL SETUSER the cluster's user +info, or look as an administrator: maxmemory-policy"
            " must be noeviction, appendonly yes",
        )
        return
    yield _role(facts.info)
    yield _eviction(facts.info)
    yield _memory(facts.info)
    yield from _persistence(facts)


def _sentinels(facts: RedisFacts) -> Iterator[Finding]:
    if not facts.sentinels:
        return
    naming = [each for each in facts.sentinels if each.master]
    others = [each for each in facts.sentinels if not each.master]
    told = (
        f"{facts.host}:{facts.port} is the master, which {len(naming)} of {len(facts.sentinels)}"
        " sentinels name"
    )
    silent = "".join(f"; {each.address}: {each.fault or 'another master'}" for each in others)
    yield judged(
        len(naming) >= max(FEWEST_SENTINELS, len(facts.sentinels)),
        told,
        warning(
            f"{told}{silent}",
            f"run at least {FEWEST_SENTINELS} sentinels, on machines of their own, and name all of"
            " them in the message queue's URL",
        ),
    )
    if len({each.master for each in naming}) > 1:
        seen = ", ".join(f"{each.address} names {each.master}" for each in naming)
        yield warning(
            f"the sentinels disagree: {seen}", "wait for a failover to end; look at their logs"
        )
    replicas = max(each.replicas for each in naming) if naming else 0
    yield judged(
        replicas > 0,
        f"{replicas} {'replica is' if replicas == 1 else 'replicas are'} connected",
        warning(
            "no replica is connected: if the master dies, nothing takes its place",
            "start a Redis with replicaof, and look at the master's log",
        ),
    )


def _version(version: str) -> Finding:
    return judged(
        version_number(version) >= OLDEST,
        f"version {version}",
        failed(f"version {version or 'unknown'} is too old", "run Redis 6.2 or newer"),
    )


def _latency(latency: float, settings: Settings) -> Finding:
    told = f"answers in {milliseconds(latency)}"
    remedy = "move Redis closer, look for slow commands with SLOWLOG, or raise budget"
    if latency > settings.budget:
        return failed(f"{told}, longer than the budget of {settings.budget:g} s", remedy)
    slow = warning(f"{told}; the budget of {settings.budget:g} s leaves little room", remedy)
    return judged(latency <= settings.budget / 4, told, slow)


def _entrance(facts: RedisFacts, is_local: bool) -> Finding:
    grade = warning if is_local else failed
    return judged(
        not facts.is_open,
        "it answers nobody without a password",
        grade(
            f"reachable without a password at {facts.host}: whoever reaches it can run the crawl",
            "set requirepass or a user with a password, and `ACL SETUSER default off ~* &* +@all`",
        ),
    )


def _tls(facts: RedisFacts, is_local: bool) -> Finding:
    return judged(
        facts.tls or is_local,
        "TLS" if facts.tls else "no TLS, on this machine only",
        warning(
            "no TLS: whoever listens to the network reads the password and everything else",
            "give Redis a tls-port, and write rediss:// in the message queue's URL",
        ),
    )


def _role(info: Mapping[str, Any]) -> Finding:
    return judged(
        info.get("role") == "master",
        "it accepts writes",
        failed("it is a replica, which accepts no writes", "name the master in the URL"),
    )


def _eviction(info: Mapping[str, Any]) -> Finding:
    policy = info.get("maxmemory_policy")
    grade = failed if info.get("maxmemory") else warning
    return judged(
        policy == "noeviction",
        "maxmemory-policy noeviction",
        grade(
            f"maxmemory-policy {policy}: once memory is full, queues are deleted",
            "set maxmemory-policy noeviction, in redis.conf as well",
        ),
    )


def _memory(info: Mapping[str, Any]) -> Finding:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not most:
        return ok(f"{used // 2**20:,} MB used, no maxmemory")
    share = used / most
    told = f"{share:.0%} of maxmemory is used"
    remedy = "raise maxmemory, or find with `pyspider-zk status` what fills up"
    if share >= FULL:
        return failed(f"{told}: publishers wait", remedy)
    return judged(share < NEARLY_FULL, told, warning(told, remedy))


def _persistence(facts: RedisFacts) -> Iterator[Finding]:
    info = facts.info
    if not info.get("aof_enabled"):
        yield failed(
            "appendonly is off: a Redis that ends loses queues and handoffs",
            "set appendonly yes, in redis.conf as well",
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield failed("the append-only file cannot be written", "look at Redis's log and its disk")
    else:
        yield _fsync(facts.appendfsync)
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield warning("the last snapshot failed", "look at Redis's log and its disk")


def _fsync(appendfsync: str) -> Finding:
    told = f"appendonly yes, appendfsync {appendfsync or 'not shown'}"
    return judged(
        appendfsync != "no",
        told,
        warning(f"{told}: a power failure loses half a minute", "set appendfsync everysec"),
    )
