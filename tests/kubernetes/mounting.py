"""Files and servers of a rendering, for processes of this machine."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspider_zk.local.child import tail
from tests.kubernetes.chart import RELEASE
from tests.kubernetes.rendering import Rendering, name_of
from tests.support.ports import own_port
from tests.support.processes import PROGRAM
from tests.support.secured_servers import Authority, SpecialRedis, tls_zookeeper

Secrets = dict[str, dict[str, str]]
"""The files of each Secret."""


class GuardedRedis(SpecialRedis):
    """A Redis that nobody can ask whether it runs."""

    def _answers(self, port: int, pid: int) -> bool:  # noqa: ARG002
        return "ready to accept connections" in tail(self.log).lower()


def secrets_of(rendering: Rendering) -> Secrets:
    """Return the files of the Secrets."""
    return {
        name_of(each).removeprefix(f"{RELEASE}-"): {
            file: base64.b64decode(content).decode() for file, content in each["data"].items()
        }
        for each in rendering.of("Secret")
    }


def mount(secrets: Secrets, folder: Path) -> None:
    """Make a folder of files for each Secret."""
    for name, files in secrets.items():
        (folder / name).mkdir()
        for file, content in files.items():
            (folder / name / file).touch(mode=0o600)
            (folder / name / file).write_text(content)


def prepare_users(rendering: Rendering, folder: Path) -> Path:
    """Run what the web UI's pod runs first; return the file that it writes."""
    webui = next(pod for pod in rendering.pods() if pod.name == f"{RELEASE}-webui")
    words = webui.spec["initContainers"][0]["command"]
    script = words[-1].replace("/run/users", str(folder / "webui"))
    file = folder / "users.json"
    script = script.replace("/run/webui/users.json", str(file))
    script = script.replace("pyspider-zk", " ".join(PROGRAM))
    subprocess.run([*words[:-1], script], check=True)
    return file


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Run a ZooKeeper with the files of the chart's; give its address."""
    ca, client = folder / "cluster/ca.pem", folder / "cluster/client.pem"
    made = Authority(ca, folder / "zookeeper/server.pem", client, client)
    with tls_zookeeper(folder, made, "need") as address:
        yield address


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Run a Redis with the files of the chart's; give its port."""
    files, port = folder / "redis", own_port()
    options = {
        "tls-port": port,
        "tls-cert-file": files / "server.pem",
        "tls-key-file": files / "server.pem",
        "tls-ca-cert-file": files / "ca.pem",
        "tls-auth-clients": "yes",
        "aclfile": files / "users.acl",
    }
    with GuardedRedis(folder / "redis-data", options):
        yield port


def message_queue(secrets: Secrets, folder: Path, port: int) -> str:
    """Return the URL of the message queue, as it is here."""
    url = secrets["cluster"]["message-queue"].replace("/run/cluster", str(folder / "cluster"))
    return url.replace(f"{RELEASE}-redis:6379", f"localhost:{port}")
