"""What a stranger on the cluster's network gets: nothing, on any port that listens."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from docker.models.containers import Container

from pyspider_zk.errors import ClusterError
from tests.deploy.composed import (
    DOMAIN,
    PROCESSES,
    PROMETHEUS,
    SCHEDULER,
    SERVERS,
    ComposedCluster,
    service_of,
)
from tests.deploy.crawl import StepCrawl

METRICS = 9464
LISTENS = {
    "zookeeper": {2281, 2888, 3888},  # the second one only the leader's
    "redis": {6379},
    "postgresql": {5432},
    "scheduler": {23333, METRICS},
    "processor": {METRICS},
    "fetcher": {METRICS},
    "result-worker": {METRICS},
    "renderer": {25555, METRICS},
    "webui": {5000, METRICS},
    "prometheus": {9090},
}
"""The ports of each service that others reach; all are tried."""

_LISTEN = "0A"  # as /proc/net/tcp has it
_LOOPBACK = ("0100007F", "0B00007F", "00000000000000000000000001000000")  # the second: Docker's DNS


@dataclass(frozen=True)
class Tried:
    """One attempt at a door.

    Attributes:
        told: the error that it met.
    """

    door: str
    how: str
    opened: bool
    told: str


def faults(
    strangers: list[Tried], insiders: list[Tried], listens: dict[str, set[int]]
) -> Iterator[str]:
    """Yield a sentence for each door that opens, cannot be judged, or nobody knows of."""
    for tried in strangers:
        if tried.opened:
            yield f"{tried.door} opens to a stranger: {tried.how}"
    for tried in insiders:
        if not tried.opened:
            yield f"{tried.door} does not open to its key: {tried.how}, {tried.told}"
    for door in sorted({each.door for each in strangers} ^ {each.door for each in insiders}):
        yield f"{door} was not tried by both"
    for service, ports in listens.items():
        for port in sorted(ports - LISTENS.get(service.rstrip("123"), set())):
            yield f"{service} listens on port {port}, which nobody knows of"


def visit(
    cluster: ComposedCluster, operator: Container, crawl: StepCrawl
) -> tuple[Mapping[str, Any], list[str]]:
    """Try every door from a stranger's container and from an operator's.

    Returns:
        the figures, and the faults.
    """
    before = crawl.kept()
    with cluster.tool("deploy-test-stranger", ["sleep", "infinity"], "cluster") as container:
        strangers = attempts(cluster, container, crawl.project)
    changed = crawl.kept() != before
    insiders = attempts(cluster, operator, crawl.project)
    listens = _listening(cluster)
    found = [*faults(strangers, insiders, listens), *["a stranger changed something"] * changed]
    return {
        "attempts": len(strangers),
        "opened": sum(each.opened for each in strangers),
        "opened_by_keys": sum(each.opened for each in insiders),
        "listens": {service: sorted(ports) for service, ports in sorted(listens.items())},
    }, found


def _listening(cluster: ComposedCluster) -> dict[str, set[int]]:
    """Return the ports of each service that other machines reach."""
    found = cluster.containers(*SERVERS, *PROCESSES, PROMETHEUS)
    return {service_of(each): set(_ports(each)) for each in found}


def attempts(cluster: ComposedCluster, container: Container, project: str) -> list[Tried]:
    """Return what came of all attempts from a container; with its keys, if it has some."""
    hosts = [each.attrs["Config"]["Hostname"] for each in cluster.containers(SCHEDULER)]
    names = [f"{host}.{DOMAIN}" for host in hosts]
    command = ["python", "-m", "tests.deploy.inside.doors", project, *names]
    logins = ("admin", PROMETHEUS) if "AMQP_URL_FILE" in _variables(container) else ()
    environ = {name.upper(): cluster.password(name) for name in logins}
    code, output = container.exec_run(command, environment=environ, demux=True)
    if code != 0:
        raise ClusterError(f"doors: {(output[1] or b'').decode()}")
    return [Tried(**json.loads(line)) for line in output[0].splitlines()]


def _ports(container: Container) -> Iterator[int]:
    _, table = container.exec_run(["cat", "/proc/net/tcp", "/proc/net/tcp6"])
    for words in map(str.split, table.decode().splitlines()):
        if len(words) > 3 and words[3] == _LISTEN:
            address, _, port = words[1].partition(":")
            if address not in _LOOPBACK:
                yield int(port, 16)


def _variables(container: Container) -> set[str]:
    said: list[Any] = container.attrs["Config"]["Env"]
    return {each.partition("=")[0] for each in said}
