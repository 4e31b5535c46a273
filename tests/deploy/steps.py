"""What is done to the composed cluster while it crawls: a function per step, with its figures."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from docker.models.containers import Container

from tests.deploy.composed import (
    COMPONENTS,
    DOMAIN,
    FETCHER,
    PROCESSES,
    PROMETHEUS,
    SCHEDULER,
    ComposedCluster,
    service_of,
)
from tests.deploy.crawl import PATIENCE, CrawlLook, StepCrawl
from tests.support.waiting import eventually

Figures = Mapping[str, Any]
Action = Callable[[ComposedCluster, StepCrawl], Figures]


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: its name, with which the names of its projects begin.
        seconds: how long its crawl takes at least, which must be longer than the action.
        action: what is done meanwhile.
        planned: whether it may cause no duplicate.
    """

    name: str
    seconds: int
    action: Action
    planned: bool = True


def nothing(_cluster: ComposedCluster, _crawl: StepCrawl) -> Figures:
    """Only crawl."""
    return {}


def scale(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """Run five schedulers instead of three, then two."""
    found = {}
    for schedulers in (5, 2):
        cluster.scale(schedulers)
        found[f"settled_at_{schedulers}_s"] = _settled(cluster, crawl)
    return found


def widen(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """Run three schedulers again."""
    cluster.scale(3)
    return {"settled_at_3_s": _settled(cluster, crawl)}


def pause(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """Freeze a scheduler until others have its slots, then let it go on."""
    frozen = cluster.containers(SCHEDULER)[0]
    frozen.pause()
    gone = crawl.until(_without(frozen), "the frozen scheduler is given up")
    frozen.unpause()
    return {"given_up_s": gone, "back_s": _settled(cluster, crawl)}


def kill(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """Kill a scheduler's process; the engine starts it again."""
    killed = cluster.containers(SCHEDULER)[0]
    before = set(crawl.last.incarnations)
    os.kill(killed.attrs["State"]["Pid"], signal.SIGKILL)
    gone = crawl.until(lambda look: not before.issubset(look.incarnations), "its session ends")
    return {"given_up_s": gone, "back_s": _settled(cluster, crawl)}


def disconnect(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """Take a scheduler from its network until others have its slots, then bring it back."""
    cut = cluster.containers(SCHEDULER)[0]
    network = cluster.network("cluster")
    network.disconnect(cut)
    gone = crawl.until(_without(cut), "the scheduler without a network is given up")
    network.connect(cut)
    return {"given_up_s": gone, "back_s": _settled(cluster, crawl)}


def restart(*services: str) -> Action:
    """Return the action that restarts all containers of these services, one after the other."""

    def action(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
        found: dict[str, float] = {}
        for container in cluster.containers(*services):
            container.restart(timeout=int(container.attrs["Config"].get("StopTimeout") or 10))
            eventually(lambda each=container: _answers(each), container.name, within=PATIENCE)
            found[container.name] = _settled(cluster, crawl)
        return {"restarted": len(found), "longest_s": max(found.values())}

    return action


def upgrade(tag: str, version: str) -> Action:
    """Return the action that replaces schedulers, and then the rest, by another version's."""

    def action(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
        cluster.tag = tag
        cluster.run(program=("./roll",))
        rolled = _settled(cluster, crawl)
        cluster.run("up", "--detach", "--no-deps", *COMPONENTS)
        settled = _settled(cluster, crawl)
        crawl.until(lambda look: look.versions == [version], f"all are of version {version}")
        return {"schedulers_settled_s": rolled, "settled_s": settled, "version": version}

    return action


def monitor(cluster: ComposedCluster, _crawl: StepCrawl) -> Figures:
    """Wait until Prometheus has metrics of every process, and has tried every rule."""
    wanted = sorted(map(_address, cluster.containers(*PROCESSES)))
    environ = {"PASSWORD": cluster.password(PROMETHEUS)}
    command = ["python", "-m", "tests.deploy.inside.scraped"]
    with cluster.tool("deploy-test-watcher", ["sleep", "infinity"], "cluster") as watcher:

        def scraped() -> dict[str, Any] | None:
            code, output = watcher.exec_run(command, environment=environ)
            found: dict[str, Any] = json.loads(output) if code == 0 else {}
            done = found.get("up") == wanted and found["rules"] == {"ok": found["told"]}
            return found if done else None

        found = eventually(scraped, "all processes are scraped", within=PATIENCE)
    return {"scraped": len(wanted), "rules": found["told"]}


def end_without_grace(cluster: ComposedCluster, crawl: StepCrawl) -> Figures:
    """End fetchers as a grace does that is over at once: what they had on the wire comes again."""
    for container in cluster.containers(FETCHER):
        container.kill()
        container.start()
    return {"back_s": _settled(cluster, crawl)}


def _settled(cluster: ComposedCluster, crawl: StepCrawl) -> float:
    """Wait until all processes are in the cluster and all slots are owned; return the seconds."""
    schedulers = sorted(map(_host, cluster.containers(SCHEDULER)))
    others = sorted(map(_host, cluster.containers(*COMPONENTS)))

    def settled(look: CrawlLook) -> bool:
        return look.settled and look.members == schedulers and look.components == others

    return crawl.until(settled, "all processes are there and all slots are owned")


def _answers(container: Container) -> bool:
    """Return whether a server's health check says so; a process says itself that it is there."""
    container.reload()
    return service_of(container) in PROCESSES or _health(container) == "healthy"


def _health(container: Container) -> str:
    return str(container.attrs["State"]["Health"]["Status"])


def _without(container: Container) -> Callable[[CrawlLook], bool]:
    host = _host(container)
    return lambda look: look.settled and host not in look.members


def _address(container: Container) -> str:
    return str(container.attrs["NetworkSettings"]["Networks"][DOMAIN]["IPAddress"])


def _host(container: Container) -> str:
    return str(container.attrs["Config"]["Hostname"])
