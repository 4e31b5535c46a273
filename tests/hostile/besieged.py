"""A cluster under ``pyspider-zk up`` that strangers reach: with logins, and all its ports open."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspider.database import connect_database

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings
from pyspider_zk.demo.crawl import DemoCrawl
from pyspider_zk.local.folder import Running
from pyspider_zk.secret_files import read_cluster_secret
from pyspider_zk.webui.users import Role, change_users
from tests.hostile.trial import BESIDE, HOSTILE, USUAL
from tests.support.crawling_cluster import children
from tests.support.ports import own_port
from tests.support.processes import ROOT
from tests.support.running_cluster import settings_of, up

USER, PASSWORD = "admin", "the password of the tests"
SCHEDULER, FETCHER, METRICS = "XML-RPC of a scheduler", "XML-RPC of the fetcher", "metrics"
LIMIT = 10  # seconds that a page may hold a processor


@dataclass(frozen=True)
class Besieged:
    """The cluster while it runs."""

    folder: Path
    running: Running
    fetcher_port: int

    @property
    def settings(self) -> Settings:
        """What lets a client in."""
        return settings_of(self.running)

    @property
    def secret(self) -> str:
        """What opens XML-RPC."""
        return read_cluster_secret(Path(self.running.secret_file))

    def crawl(self) -> DemoCrawl:
        """Return the trial's projects in the databases."""
        urls = (getattr(self.running, f"{kind}db") for kind in ("task", "project", "result"))
        return DemoCrawl((USUAL, BESIDE, HOSTILE), *map(connect_database, urls))

    def doors(self) -> Mapping[str, str]:
        """Return where strangers knock, as URLs."""
        with Directory(self.settings) as directory:
            scheduler, *_ = (member.address for member in directory.members().values())
        metrics = next((self.folder / "data" / "metrics").glob("processor*.json"))
        (group,) = json.loads(metrics.read_text(encoding="utf-8"))
        return {
            "web UI": f"{self.running.webui}login/",
            SCHEDULER: f"http://{scheduler}/RPC2",
            FETCHER: f"http://127.0.0.1:{self.fetcher_port}/RPC2",
            METRICS: f"http://{group['targets'][0]}/metrics",
        }

    def processes(self) -> set[int]:
        """Return what ``up`` started itself: none of these may end."""
        return set(children(self.running.pid))

    def logs(self) -> Mapping[str, Path]:
        """Return the logs by name."""
        return {path.stem: path for path in (self.folder / "data" / "logs").glob("*.log")}


@contextmanager
def besieged(folder: Path) -> Iterator[Besieged]:
    """Run the cluster while the block runs."""
    port = own_port()
    change_users(folder / "users.json", Role.ADMIN, USER, PASSWORD)
    config = {
        "zookeeper": {"users": str(folder / "users.json"), "metrics": "127.0.0.1:0"},
        "webui": {"need_auth": True},
        "scheduler": {"fail_pause_num": 0},  # most of the hostile project's pages fail
        "fetcher": {"xmlrpc": True, "xmlrpc_port": port},
        "processor": {"process_time_limit": LIMIT},
    }
    file = folder / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    with up(folder, "--schedulers", "2", "--processors", "2", config=file) as running:
        yield Besieged(folder, running, port)


@contextmanager
def site(cluster: str) -> Iterator[Mapping[str, str]]:
    """Run a site in a process of its own; give the URLs of its kinds."""
    command = [sys.executable, "-m", "tests.hostile.site", "--cluster", cluster]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()
