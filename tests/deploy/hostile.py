"""Hostile pages and strangers' load on the composed cluster, which has limits of its own."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from docker.models.containers import Container

from pyspider_zk.errors import ClusterError
from tests.deploy.composed import DOMAIN, PROCESSES, SCHEDULER, ComposedCluster
from tests.deploy.strangers import METRICS, attempts
from tests.hostile.load import LOADS
from tests.hostile.trial import HOSTILE, MOST_SLOWDOWN, STALLS
from tests.support.waiting import eventually

AT_ONCE = 10  # kinds of load
_SITE = ("python", "-m", "tests.hostile.site", "--host", "")


def besiege(cluster: ComposedCluster, operator: Container) -> tuple[Mapping[str, Any], list[str]]:
    """Crawl the hostile site beside the healthy one, then load all ports.

    Returns:
        the figures, and the faults.
    """
    before = _lives(cluster)
    figures, found = _crawl(cluster, operator)
    for first in range(0, len(LOADS), AT_ONCE):
        found += _load(cluster, operator, [each.name for each in LOADS[first:][:AT_ONCE]])
    after = _lives(cluster)
    found += [f"{name} was started anew" for name in before if before[name] != after.get(name)]
    peaks = {each.name: _peak(each) for each in cluster.containers(*PROCESSES)}
    return {**figures, "peak_mb": peaks}, found


def _crawl(cluster: ComposedCluster, operator: Container) -> tuple[Mapping[str, Any], list[str]]:
    """Carry out the trial in the operator's container."""
    with ExitStack() as stack:
        environ = {}
        for name in ("healthy", "hostile"):
            host = f"deploy-test-{name}"
            command = [*_SITE, "--name", host, "--cluster", "http://webui:5000"]
            container = stack.enter_context(cluster.tool(host, command, "outside"))
            said = eventually(lambda c=container: c.logs(stdout=True, stderr=False), host)
            environ[name.upper()] = said.decode()
        command = ["python", "-m", "tests.deploy.inside.hostile"]
        code, output = operator.exec_run(command, environment=environ, demux=True)
    if code != 0:
        raise ClusterError(f"hostile: {(output[1] or b'').decode()}")
    told: dict[str, Any] = json.loads(output[0])
    faults = told.pop("faults")
    if told["beside_s"] > MOST_SLOWDOWN * told["usual_s"] + STALLS:
        faults.append(f"the healthy project took {told['beside_s']} s, not {told['usual_s']} s")
    return told, faults


def _load(cluster: ComposedCluster, operator: Container, names: list[str]) -> list[str]:
    """Load all ports in some ways; return a sentence for each door shut to its key."""
    command = ["python", "-m", "tests.hostile.load", ",".join(names), *_doors(cluster)]
    with cluster.tool("deploy-test-crowd", command, "cluster") as crowd:
        eventually(lambda: crowd.logs(stdout=True, stderr=False), "strangers are there")
        tried = attempts(cluster, operator, HOSTILE)
    shut = (each for each in tried if not each.opened)
    return [f"under {', '.join(names)}: {each.door} {each.how}: {each.told}" for each in shut]


def _doors(cluster: ComposedCluster) -> Iterator[str]:
    host = cluster.containers(SCHEDULER)[0].attrs["Config"]["Hostname"]
    yield "http://webui:5000/login/"
    for scheme in ("http", "https"):  # those who speak no TLS are connections, too
        yield f"{scheme}://{host}.{DOMAIN}:23333/RPC2"
        yield f"{scheme}://processor:{METRICS}/metrics"


def _lives(cluster: ComposedCluster) -> dict[str, tuple[object, ...]]:
    """Return what changes for each process if its container is started anew."""
    found = {}
    for container in cluster.containers(*PROCESSES):
        container.reload()
        state = container.attrs["State"]
        restarts = container.attrs["RestartCount"]
        found[container.name] = (state["StartedAt"], restarts, state["OOMKilled"])
    return found


def _peak(container: Container) -> int | None:
    """Return the MB that a container took at most; None where the kernel does not tell."""
    code, output = container.exec_run(["cat", "/sys/fs/cgroup/memory.peak"])
    return int(output) // 2**20 if code == 0 else None
