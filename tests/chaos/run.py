"""One run: a cluster, a crawl, a schedule of faults, and the verdict."""

import itertools
import json
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings
from tests.chaos import report
from tests.chaos.batches import SCRIPT, Starter, batches
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import LEAST, Kind, PlannedFault, schedule
from tests.chaos.inflict import Inflictor, Timeline
from tests.chaos.recorder import PROCESSING_TIMEOUT, Recorder, boottime, committed, watch_commits
from tests.chaos.services import (
    CLIENT_PORT,
    ENSEMBLE,
    SEATS,
    SECRET,
    DatabaseUrls,
    databases,
    write_config,
)
from tests.chaos.site import GraphSite, SiteProject, failing, projects
from tests.support.connected import rpc_url, start_projects
from tests.support.database_servers import lent
from tests.support.network import HUB_ADDRESS, Network
from tests.support.waiting import eventually

FINISH_PATIENCE = 240.0
"""Seconds that the crawl may go on once all faults are undone."""

STANDSTILL = PROCESSING_TIMEOUT + 15
"""Seconds without any change after which the crawl has come to rest, finished or not."""

RATE = 2.0  # pages a second and project
_SHARE = 0.6  # of what a crawl without faults would do in the time


@dataclass(frozen=True)
class RunPlan:
    """What to run.

    Attributes:
        output: the folder below which the run's own folder is made.
        keep: keep that folder even if nothing was wrong.
        kinds: the faults that may happen.
        calm: seconds without a fault after each; 0 lets them overlap.
        leases: how long the members' leases last, in seconds, seat by seat; none: by default.
        database: ``sqlite``, or ``postgresql``, which faults of the network part from members.
    """

    seconds: int
    seed: int
    output: Path
    keep: bool = False
    kinds: tuple[Kind, ...] = tuple(Kind)
    calm: float = 0.0
    leases: tuple[float, ...] = ()
    database: str = "sqlite"

    @property
    def folder(self) -> Path:
        """Where the run leaves its history and logs."""
        return (self.output / f"seed-{self.seed}").resolve()

    @property
    def pages(self) -> int:
        """How many pages each graph has, so that the crawl lasts about the whole run."""
        return max(10, int(self.seconds * RATE * _SHARE))


def run(plan: RunPlan) -> int:
    """Run a seed; print the verdict as the last line.

    Returns:
        0 if nothing was lost.

    Raises:
        NotPermitted: no network namespaces here.
        MissingService: a program is not installed.
    """
    faults = schedule(plan.seed, plan.seconds, plan.kinds, plan.calm)
    _prepare(plan, faults)
    requests = plan.folder / "requests.jsonl"
    with Network([*SEATS, *ENSEMBLE]) as network, databases(plan.database, plan.folder) as urls:
        write_config(plan.folder, network, urls, plan.leases)
        with GraphSite(HUB_ADDRESS, plan.pages, requests) as site:
            cluster = ChaosCluster(network, plan.folder, plan.leases)
            try:
                with lent(urls("task")) as taskdb:
                    watch_commits(taskdb)
                cluster.start(LEAST)
                _Crawl(plan, cluster, site, urls).go(faults)
            finally:
                cluster.stop()
    code = report.check(plan.folder)
    _tidy(plan, failed=code != 0)
    return code


class _Crawl:
    """The crawl of one run, from its first page to the end."""

    def __init__(
        self, plan: RunPlan, cluster: ChaosCluster, site: GraphSite, urls: DatabaseUrls
    ) -> None:
        self._plan = plan
        self._urls = urls
        self._cluster = cluster
        self._site = site
        self._folder = plan.folder
        self._projects = projects(RATE)
        self._pause = threading.Event()
        self._log = Recorder(plan.folder / "faults.jsonl")
        self._left: dict[str, Any] = {}  # what stood in the databases at the last look
        self._progress = boottime()  # when that last changed
        self._batches = batches(plan.seconds)

    def go(self, faults: Sequence[PlannedFault]) -> None:
        """Crawl while the faults happen, then let the crawl finish, and save what there is."""
        times = {"started": time.time(), "began": boottime(), "time_out": PROCESSING_TIMEOUT}
        every = [*self._projects, *failing()]
        _start(every, self._site, self._cluster.network, self._urls)
        self._prepare_batches()
        eventually(lambda: self._site.served > 0, "the first page is fetched")
        with Starter(_settings(self._cluster.network), self._batches) as starter:
            inflictor = self._suffer(faults)
            done = {str(kind): count for kind, count in inflictor.done.items()}
            times |= {"healed": boottime(), "ended": time.time()}
            starter.stop()
            finished = self._finish(starter, times)
        inflictor.look_after()
        times["finished"] = boottime()
        self._save_commits()
        final = {**asdict(self._plan), "output": "", "faults": done, "finished_in_time": finished}
        final |= {"pages": self._plan.pages, "times": times, **self._left}
        _write(self._folder / "final.json", final)

    def _save_commits(self) -> None:
        """Save in which order the task database committed."""
        with lent(self._urls("task")) as taskdb:
            lines = [json.dumps(commit) + "\n" for commit in committed(taskdb)]
        (self._folder / "commits.jsonl").write_text("".join(lines), encoding="utf-8")

    def _suffer(self, faults: Sequence[PlannedFault]) -> Inflictor:
        timeline = Timeline()
        inflictor = Inflictor(self._cluster, timeline, self._log)
        began = boottime()
        for fault in faults:
            timeline.at(began + fault.at, partial(inflictor.inflict, fault))
        timeline.at(began + self._plan.seconds, lambda: None)
        timeline.run(self._pause.wait)
        inflictor.look_after()
        return inflictor

    def _prepare_batches(self) -> None:
        """Create the projects that batches will start."""
        row = {"status": "STOP", "group": "", "comments": "", "rate": 100, "burst": 100}
        with lent(self._urls("project")) as projectdb:
            for name in itertools.chain(*self._batches.values()):
                projectdb.insert(name, {**row, "script": SCRIPT})

    def _finish(self, starter: Starter, times: Mapping[str, float]) -> bool:
        """Wait until nothing is left to do; tell whether that came about in time.

        It cannot any more if nothing has changed for a while; then the rest is not waited for.
        """
        self._progress = boottime()
        deadline = self._progress + FINISH_PATIENCE
        while boottime() < min(deadline, self._progress + STANDSTILL):
            self._pause.wait(1)  # the databases are busy enough
            if self._finished(starter, times):
                return True
        return False

    def _finished(self, starter: Starter, times: Mapping[str, float]) -> bool:
        left = {**self._look(), "batches": starter.look()}
        if _without_ticks(left) != _without_ticks(self._left):
            self._progress = boottime()
        self._left = left
        final = {"pages": self._plan.pages, "times": times, **left}
        _write(self._folder / "final.json", final)
        return report.complete(self._folder)

    def _look(self) -> dict[str, Any]:
        """Return what stands in the databases."""
        with lent(self._urls("task")) as taskdb, lent(self._urls("result")) as done:
            return {
                "projects": [asdict(one) for one in self._projects],
                "rows": {one.name: _rows(taskdb, one.name) for one in self._projects},
                "results": {one.name: _results(done, one.name) for one in self._projects},
            }


def _start(
    projects: Sequence[SiteProject], site: GraphSite, network: Network, urls: DatabaseUrls
) -> None:
    """Create the projects and start them, as the web UI does."""
    with lent(urls("project")) as projectdb:
        for one in projects:
            row = {"status": "RUNNING", "group": "", "comments": "", "rate": one.rate, "burst": 3}
            projectdb.insert(one.name, {**row, "script": one.script(site.url)})
    with Directory(_settings(network)) as directory:
        member = next(iter(directory.members().values()))
    with ServerProxy(rpc_url(member.address, SECRET), allow_none=True) as rpc:
        start_projects(rpc, [one.name for one in projects])


def _settings(network: Network) -> Settings:
    hosts = ",".join(f"{network.address(name)}:{CLIENT_PORT}" for name in ENSEMBLE)
    return Settings(hosts=hosts, secret=SECRET)


def _rows(taskdb: Any, project: str) -> dict[str, int]:
    """Return the state of all tasks of a project, by URL."""
    fields = ("url", "status")
    return {
        row["url"]: status
        for status in (taskdb.ACTIVE, taskdb.SUCCESS, taskdb.FAILED, taskdb.BAD)
        for row in taskdb.load_tasks(status, project, fields)
    }


def _without_ticks(left: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stood in the databases, but for what comes with the time."""
    rows = {
        name: {url: status for url, status in found.items() if "/tick/" not in url}
        for name, found in left.get("rows", {}).items()
    }
    return {"rows": rows, "batches": left.get("batches")}


def _results(resultdb: Any, project: str) -> list[str]:
    if project not in resultdb.projects:
        return []
    return [row["url"] for row in resultdb.select(project, fields=("url",))]


def _prepare(plan: RunPlan, faults: Sequence[PlannedFault]) -> None:
    """Make an empty folder; print and save the schedule."""
    shutil.rmtree(plan.folder, ignore_errors=True)
    for name in ("history", "logs", "data"):
        (plan.folder / name).mkdir(parents=True)
    _write(plan.folder / "schedule.json", [fault.as_json() for fault in faults])
    for fault in faults:
        parts = " + ".join(part.kind for part in fault.parts)
        print(f"{fault.at:7.2f} s  {fault.kind}  {parts or fault.lasts}")  # noqa: T201
    sys.stdout.flush()


def _tidy(plan: RunPlan, *, failed: bool) -> None:
    """Keep what explains a failure; the servers' own data does not."""
    shutil.rmtree(plan.folder / "data")
    if not failed and not plan.keep:
        shutil.rmtree(plan.folder)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
