"""One run: engine, images, cluster, and the steps in their order."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import docker
from docker import DockerClient
from docker.models.containers import Container

from pyspider_zk.errors import ClusterError
from tests.deploy import hostile, images, steps, strangers
from tests.deploy.composed import PROCESSES, SERVERS, ComposedCluster
from tests.deploy.crawl import StepCrawl
from tests.deploy.engine import engine
from tests.deploy.inside.crawl import PROJECTS, RATE
from tests.deploy.outcome import StepOutcome
from tests.deploy.steps import Step

NOW, NEXT = "deploy-test", "deploy-test-next"
"""The tags of the images, of this version and of another one."""

STRANGERS, HOSTILE = "strangers", "hostile"
"""The steps that are no crawl of trees."""

OTHER_VERSION = "0.1.1.dev0"
SOME = PROJECTS * 4  # pages that are crawled when a step's action begins

STEPS = (
    Step("crawl", 20, steps.nothing),
    Step("scale", 60, steps.scale),
    Step("widen", 30, steps.widen),
    Step("pause", 60, steps.pause, planned=False),
    Step("kill", 40, steps.kill, planned=False),
    Step("disconnect", 60, steps.disconnect, planned=False),
    Step("restart_processes", 120, steps.restart(*PROCESSES)),
    Step("restart_servers", 90, steps.restart(*SERVERS)),
    Step("upgrade", 120, steps.upgrade(NEXT, OTHER_VERSION)),
    Step("monitor", 30, steps.monitor),
)


BITES = (Step("end_without_grace", 40, steps.end_without_grace),)
"""What must not pass as planned: it shows that duplicates are found."""

NAMES = (*(step.name for step in (*STEPS, *BITES)), STRANGERS, HOSTILE)


@dataclass(frozen=True)
class Scene:
    """A cluster that runs, and the container from which its crawls are seen."""

    cluster: ComposedCluster
    operator: Container
    built_s: float
    up_s: float

    def as_json(self) -> str:
        """Return how long that took, as one line."""
        return json.dumps({"step": "up", "built_s": self.built_s, "up_s": self.up_s})


@contextmanager
def scene(socket: str | None, base: str | None) -> Iterator[Scene]:
    """Build the images and bring the cluster up, for the block. Blocks for minutes."""
    with ExitStack() as ended:
        url = ended.enter_context(engine(socket))
        client = docker.DockerClient(base_url=url, timeout=600)
        ended.callback(client.close)
        began = time.monotonic()
        _build(client, url, base)
        built = time.monotonic()
        cluster = ComposedCluster(client, url, NOW)
        cluster.run("down", "--volumes", "--remove-orphans")
        ended.callback(cluster.run, "down", "--volumes", "--remove-orphans")
        cluster.run("up", "--detach", "--no-build")
        up = time.monotonic()
        serve = ["python", "-m", "tests.deploy.inside.site"]
        ended.enter_context(cluster.tool("deploy-test-site", serve, "outside"))
        wait = ["sleep", "infinity"]
        operator = ended.enter_context(
            cluster.tool("deploy-test-operator", wait, "cluster", "outside", like="processor")
        )
        yield Scene(cluster, operator, round(built - began, 1), round(up - built, 1))


def results(scene: Scene, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Carry out the steps of these names; yield each one's line of JSON, and its faults."""
    for step in (*STEPS, *BITES):
        if step.name in names:
            began = time.time()
            line, faults = _tried(scene, step)
            if faults:
                say(scene.cluster.logs(began))
            yield line, faults
    if STRANGERS in names:
        yield let_strangers_try(scene)
    if HOSTILE in names:
        figures, faults = hostile.besiege(scene.cluster, scene.operator)
        yield json.dumps({"step": HOSTILE, **figures}, separators=(",", ":")), faults


def _tried(scene: Scene, step: Step) -> tuple[str, list[str]]:
    try:
        return _judged(carry_out(scene, step), bites=step in BITES)
    except ClusterError as error:  # the steps that follow may tell more
        return json.dumps({"step": step.name, "error": str(error)}), [str(error)]


def _judged(outcome: StepOutcome, bites: bool) -> tuple[str, list[str]]:
    """Return an outcome's line of JSON, and its faults; where it bites, that there are none."""
    told = [] if outcome.duplicates else [f"{outcome.step}: no duplicates were found"]
    return outcome.as_json(), told if bites else list(outcome.faults())


def carry_out(scene: Scene, step: Step) -> StepOutcome:
    """Carry out one step while its crawl goes on, and count what came of it. Blocks for minutes."""
    began = time.monotonic()
    crawl = StepCrawl(scene.operator, step.name, int(step.seconds * RATE))
    crawl.begin()
    crawl.until(lambda look: look.done >= SOME, "some pages are crawled")
    before = crawl.last.done
    figures = step.action(scene.cluster, crawl)
    crawl.finish()
    counted = crawl.count()
    return StepOutcome(
        step=step.name,
        planned=step.planned,
        crawled_before=before,
        seconds=round(time.monotonic() - began, 1),
        figures=figures,
        **counted,
    )


def let_strangers_try(scene: Scene) -> tuple[str, list[str]]:
    """Try every port without and with the keys; return the line of JSON, and the faults."""
    crawl = StepCrawl(scene.operator, STEPS[0].name, int(STEPS[0].seconds * RATE))
    figures, faults = strangers.visit(scene.cluster, scene.operator, crawl)
    return json.dumps({"step": STRANGERS, **figures}, separators=(",", ":")), faults


def _build(client: DockerClient, url: str, base: str | None) -> None:
    base = base or images.make_base(client)
    images.build_servers(url, base, NOW)
    images.build(url, base, NOW)
    with images.other_version(OTHER_VERSION) as source:
        images.build(url, base, NEXT, source)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
