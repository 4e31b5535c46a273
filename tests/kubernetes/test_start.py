"""What the pods start runs, with their arguments, variables, files, probes; without Kubernetes."""

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import Mismatch
from tests.kubernetes.chart import NAMESPACE, render
from tests.kubernetes.mounting import (
    message_queue,
    mount,
    prepare_users,
    redis_server,
    secrets_of,
    zookeeper,
)
from tests.kubernetes.rendering import Pod, Rendering
from tests.support.connected import looking
from tests.support.ports import own_port
from tests.support.processes import PROGRAM, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.zk, pytest.mark.redis]


@dataclass
class StartedPods:
    """A machine that runs the processes of the pods.

    Attributes:
        folder: where everything is that the pods mount.
        pods: those with a process of pyspider-zk that stays.
        settings: of a command.
    """

    folder: Path
    pods: list[Pod]
    settings: Settings

    def here(self, text: str) -> str:
        """Return a text with the paths of this machine."""
        for path, name in (("/run/cluster", "cluster"), ("/etc", "etc"), ("/run/webui", "")):
            text = text.replace(path, str(self.folder / name))
        return text

    def start(self, pod: Pod, metrics: int) -> subprocess.Popen[bytes]:
        """Start the process of a pod, which shows its metrics on a port."""
        container = pod.spec["containers"][0]
        words = [self.here(word) for word in container["args"]]
        variables = {each["name"]: self._value(each, pod) for each in container["env"]}
        variables["PYSPIDER_ZK_ADVERTISE"] = "localhost"
        variables["PYSPIDER_ZK_METRICS"] = f"127.0.0.1:{metrics}"
        with (self.folder / f"{pod.name}.log").open("wb") as log:
            return subprocess.Popen(
                [*PROGRAM, *words],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | variables,
                stdout=log,
                stderr=log,
            )

    def _value(self, variable: Mapping[str, object], pod: Pod) -> str:
        """Return the value of a variable as Kubernetes would."""
        known = {"PYSPIDER_ZK_NAME": f"{pod.name}-0", "NAMESPACE": NAMESPACE}
        return self.here(str(variable.get("value", known.get(str(variable["name"])))))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[StartedPods]:
    rendering = Rendering(render({"scheduler": {"replicas": 1}}))
    secrets = secrets_of(rendering)
    mount(secrets, tmp_path)
    prepare_users(rendering, tmp_path)
    pods = [pod for pod in rendering.pods() if pod.is_process and pod.ports]
    with zookeeper(tmp_path) as address, redis_server(tmp_path) as port:
        cluster = tmp_path / "cluster"
        (cluster / "message-queue").write_text(message_queue(secrets, tmp_path, port))
        for kind in ("taskdb", "projectdb", "resultdb"):
            (cluster / kind).write_text(f"sqlite+{kind}:///{tmp_path}/{kind}")
        made = StartedPods(tmp_path, pods, Settings())
        (document,) = rendering.of("ConfigMap")
        config = json.loads(made.here(document["data"]["config.json"]))
        config["zookeeper"]["hosts"] = address
        config["scheduler"]["xmlrpc_port"] = 0
        config["webui"]["port"] = own_port()
        (tmp_path / "etc/pyspider-zk").mkdir(parents=True)
        (tmp_path / "etc/pyspider-zk/config.json").write_text(json.dumps(config))
        made.settings = settings_from(config["zookeeper"])
        yield made


def answers(pod: Pod, probe: str, port: int) -> bool:
    """Ask as the kubelet does: by address, so it cannot verify the name of the certificate."""
    asked = pod.spec["containers"][0][probe]["httpGet"]
    url = f"{asked['scheme'].lower()}://127.0.0.1:{port}{asked['path']}"
    context = ssl._create_unverified_context()  # noqa: S323
    try:
        with urlopen(url, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except URLError:
        return False


def test_every_pod_s_process_joins_the_cluster_is_ready_and_ends_in_order(
    node: StartedPods, eventually: Callable[..., None]
) -> None:
    metrics = {pod.name: own_port() for pod in node.pods}
    with ExitStack() as stack:
        processes = {pod.name: node.start(pod, metrics[pod.name]) for pod in node.pods}
        for process in processes.values():
            stack.callback(process.wait)
            stack.callback(process.kill)
        directory = stack.enter_context(looking(node.settings))

        def all_joined() -> bool:
            try:
                cluster = directory.read()
            except Mismatch:  # nobody founded it yet
                return False
            return len(cluster.members) == 1 and sum(map(len, cluster.components.values())) == 4

        eventually(all_joined, within=180)
        for pod in node.pods:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                eventually(lambda: answers(pod, probe, metrics[pod.name]))  # noqa: B023
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        ends = {name: process.wait(180) for name, process in processes.items()}
    assert ends == dict.fromkeys(processes, 0)
