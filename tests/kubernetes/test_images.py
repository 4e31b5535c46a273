"""The chart runs the images that are built, with the files that they read."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.chart import RELEASE, ROOT, render
from tests.kubernetes.rendering import Rendering, name_of

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
SERVERS = ("zookeeper", "redis", "postgresql")


def stage(name: str) -> str:
    """Return the part of the Dockerfile that makes an image."""
    found = re.search(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert found, name
    return found[1]


def test_pods_have_the_user_of_their_image() -> None:
    pods = list(Rendering(render({})).pods())
    assert len(pods) == 9
    for pod in pods:
        name = pod.name.removeprefix(f"{RELEASE}-")
        made = stage(name if name in SERVERS else "pyspider-zk")
        user = pod.spec["securityContext"]["runAsUser"]
        assert re.findall(r"^USER (\S+)$", made, re.M) == [f"{user}:{user}"], name


def test_servers_find_their_data_and_their_files() -> None:
    for pod in Rendering(render({})).pods():
        name = pod.name.removeprefix(f"{RELEASE}-")
        if name not in SERVERS:
            continue
        mounts = {each["name"]: each for each in pod.spec["containers"][0]["volumeMounts"]}
        assert re.findall(r"^VOLUME (\S+)$", stage(name), re.M) == [mounts["data"]["mountPath"]]
        configuration = "".join(
            file.read_text(encoding="utf-8") for file in (ROOT / "deploy" / name).iterdir()
        )
        assert f"{mounts['secrets']['mountPath']}/" in configuration


def test_the_chart_s_secrets_are_the_files_of_every_other_way_to_deploy(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    secure = ROOT / "deploy" / "secure"
    subprocess.run([secure, tmp_path], check=True, env=os.environ | {"PATH": path})
    made = {
        folder.name: {file.name for file in folder.iterdir()}
        for folder in tmp_path.iterdir()
        # Helm cannot hash the web UI's passwords, and the chart brings no Prometheus.
        if folder.name not in ("authority", "webui", "prometheus")
    }
    secrets = Rendering(render({})).of("Secret")
    rendered = {name_of(each).removeprefix(f"{RELEASE}-"): set(each["data"]) for each in secrets}
    assert made == {name: rendered[name] for name in made}
