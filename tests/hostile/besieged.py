"""A cluster under ``pyspider-zk up`` that strangers reach: with logins, and all its ports open.

And the memory of its processes: what each takes at rest, and at its peak. Linux.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
from tests.support.crawling_cluster import children, descendants
from tests.support.ports import own_port
from tests.support.processes import ROOT
from tests.support.running_cluster import STILL, settings_of, up

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
        return {path.stem: path for path in (self.folder / "data" / "logs").glob("*.log")}


@contextmanager
def besieged(folder: Path) -> Iterator[Besieged]:
    """Run the cluster while the block runs; a slot that moves has pages asked for again."""
    port = own_port()
    change_users(folder / "users.json", Role.ADMIN, USER, PASSWORD)
    config = {
        "zookeeper": {"users": str(folder / "users.json"), "metrics": "127.0.0.1:0"} | STILL,
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


LOOK = 0.2  # seconds between two looks: what a process had that was ended is what was seen last
_MB = 1024  # kB


class PeakMemory:
    """Peaks of all that a process started, by their logs. Threads: one, and its own."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._rest: dict[str, int] = {}
        self._peaks: dict[str, int] = {}

    def grown(self) -> dict[str, int]:
        """Return the MB that each took at most beyond what it had at rest."""
        found = self._peaks.items()
        return {name: (peak - self._rest.get(name, 0)) // _MB for name, peak in found}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch while the block runs; what they have at its beginning is their rest."""
        self._rest = self._read("VmRSS")
        self._peaks = {}
        for pid in descendants(self._parent):
            with suppress(OSError):  # it just ended
                Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,))
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, ended: threading.Event) -> None:
        while True:
            for name, peak in self._read("VmHWM").items():
                self._peaks[name] = max(peak, self._peaks.get(name, 0))
            if ended.wait(LOOK):
                return

    def _read(self, what: str) -> dict[str, int]:
        """Return the largest figure of the processes of each name, in kB."""
        found: dict[str, int] = {}
        for pid in descendants(self._parent):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                name = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
                told = re.search(rf"{what}:\s+(\d+)", status)  # a zombie has none
                found[name] = max(int(told[1]) if told else 0, found.get(name, 0))
        return found
