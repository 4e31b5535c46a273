"""The whole embedded cluster, through its commands."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.local.child import tail
from pyspider_zk.local.folder import running_in
from tests.support.ports import own_port
from tests.support.running_cluster import settings_of

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.usefixtures("zookeeper", "redis_server"),  # skip where they are missing
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

PROGRAM = (sys.executable, "-m", "pyspider_zk.cli.main")


class Up:
    """``pyspider-zk up`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        with (self.folder / "out.txt").open("ab") as out:
            self.process = subprocess.Popen(
                [*PROGRAM, "up", "--webui-port", str(own_port()), "--renderers", "0", *options],
                cwd=self.folder,
                stdout=out,
                stderr=out,
            )

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def status(self) -> dict:
        answer = self.run("status", "--json")
        return json.loads(answer.stdout) if answer.returncode == 0 else {"members": []}

    def cluster(self) -> Cluster | None:
        """Return what stands in ZooKeeper, None while there is none to ask."""
        running = running_in(self.data)
        if running is None:
            return None
        try:
            with Directory(settings_of(running)) as directory:
                return directory.read()
        except ClusterError:
            return None

    def pids(self) -> dict[str, int]:
        """Return the process of each scheduler, by its name."""
        cluster = self.cluster()
        return {each.name: each.pid for each in cluster.members.values()} if cluster else {}

    def names(self) -> list[str]:
        return sorted(self.pids())

    def components(self) -> int:
        cluster = self.cluster()
        return sum(map(len, cluster.components.values())) if cluster else 0

    @property
    def said(self) -> str:
        return tail(self.folder / "out.txt", lines=1000)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(300)

    def left(self) -> list[str]:
        """Return the commands that still run."""
        return [name for pid, name in processes(self.folder) if pid != self.process.pid]


def processes(folder: Path) -> list[tuple[int, str]]:
    """Return the processes that work in a folder: what `up` starts inherits it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            at = (process / "cwd").readlink()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if at.is_relative_to(folder):
            found.append((int(process.name), command))
    return found


@pytest.fixture
def up(tmp_path, eventually):
    up = Up(tmp_path)
    yield up
    if up.process is not None:
        up.process.kill()
        up.process.wait()
    eventually(lambda: up.left() == [])


def test_a_cluster_runs_scales_ends_and_continues(up, eventually):
    up.start()
    eventually(lambda: up.names() == ["up-0", "up-1", "up-2"])
    eventually(lambda: up.components() == 5)  # fetcher, two processors, result worker, web UI
    before = running_in(up.data)

    assert up.run("scale", "5").returncode == 0
    eventually(lambda: len(up.names()) == 5)
    assert up.run("scale", "2").returncode == 0
    eventually(lambda: up.names() == ["up-0", "up-1"])
    eventually(lambda: running_in(up.data).schedulers == 2)

    assert up.end() == 0
    assert up.left() == []
    assert running_in(up.data) is None

    up.start()
    eventually(lambda: up.names() == ["up-0", "up-1"])
    after = running_in(up.data)
    assert (after.zookeeper, after.message_queue) == (before.zookeeper, before.message_queue)
    eventually(lambda: up.status().get("epoch", 0) > 0)

    assert up.run("scale", "1").returncode == 0
    assert up.end(signal.SIGTERM) == 0
    assert up.left() == []

    up.start("--schedulers", "2")  # counts more than the former scale
    eventually(lambda: up.names() == ["up-0", "up-1"])


def test_what_dies_is_started_again_and_nothing_outlives_up(up, eventually, faults):
    up.start("--schedulers", "2", "--processors", "1")
    eventually(lambda: len(up.names()) == 2)
    victim = up.pids()["up-1"]
    (redis,) = [pid for pid, name in processes(up.folder) if "redis-server" in name]

    faults.kill(victim)
    eventually(lambda: "scheduler-up-1 ended unexpectedly (signal 9)" in up.said)
    eventually(lambda: up.pids().get("up-1", victim) != victim)

    faults.kill(redis)
    eventually(lambda: "Redis ended unexpectedly" in up.said)
    eventually(lambda: up.status().get("queues"))

    second = up.run("up")
    assert second.returncode == 1
    assert f"pid {up.process.pid}" in second.stderr

    faults.kill(up.process.pid)
    up.process.wait()
    eventually(lambda: up.left() == [])
    assert running_in(up.data) is None
