"""Operations for many projects, carried out by several schedulers, one of which may die."""

import json
import queue
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspider.message_queue import connect_message_queue

from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.finalizer import ARCHIVE
from pyspider_zk.local.folder import prepare_databases
from pyspider_zk.queues.connect import connect
from tests.integration.conftest import RATE, Crawl
from tests.integration.odd_components import DIES_AT, TOLD
from tests.support.chain_site import chain_script

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

Eventually = Callable[..., None]
BATCH = "the-batch"
WATCHED = 5.0  # seconds within which nothing deleted may come back; it is in the first, if at all
SHARED = 600  # projects; a scheduler has more of them than it lives for
DELETED = 100
COMPONENTS = ("fetcher", "result-worker")


class Echo:
    """Fetcher and processor in one: remembers what it is sent and says that all is well.

    Attributes:
        started: how often ``on_start`` of each project came.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._in = connect_message_queue("scheduler2fetcher", url)
        self._out = connect_message_queue("status_queue", url)
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.started: Counter[str] = Counter()

    def __enter__(self) -> "Echo":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._halt.is_set():
            try:
                task = self._in.get(timeout=0.2)
            except queue.Empty:
                continue
            if task["taskid"] == "on_start":
                self.started[task["project"]] += 1
            self._out.put(self._pack(task))

    def _pack(self, task: dict[str, Any]) -> dict[str, Any]:
        track = {"fetch": {"ok": True, "time": 0.01}, "process": {"ok": True, "time": 0.01}}
        pack = {key: task[key] for key in ("taskid", "project", "url", "schedule") if key in task}
        return {**pack, "track": {**track, "save": {}}}


@pytest.fixture
def echo(redis_url: str) -> Iterator[Echo]:
    with Echo(redis_url) as made:
        yield made


@pytest.fixture
def databases(tmp_path: Path) -> Path:
    """Give the folder of the databases; several processes may read while one writes."""
    prepare_databases(tmp_path / f"{kind}.db" for kind in ("task", "project", "result"))
    return tmp_path


def insert(folder: Path, scripts: Mapping[str, str]) -> None:
    """Insert projects, which are given by name, in one go."""
    with closing(sqlite3.connect(folder / "project.db")) as database, database:
        database.executemany(
            "INSERT INTO projectdb (name, `group`, status, script, comments, rate, burst,"
            " updatetime) VALUES (?, '', 'STOP', ?, '', ?, ?, ?)",
            [(name, script, RATE, RATE, time.time()) for name, script in scripts.items()],
        )


def names_of(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


def submit(crawl: Crawl, operation: str, selection: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = crawl.rpc().submit_operation(operation, selection, {}, "ann", BATCH)
    return answer


def kept_as_done(crawl: Crawl) -> list[str]:
    """Return the projects that the result database tells to be done."""
    kept = crawl.database("result").select(ARCHIVE)
    return sorted(name for each in kept for name in each["result"]["done"])


class Follower:
    """What is told of the batch; asks any member that runs."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self.told: list[dict[str, Any]] = []

    def is_over(self) -> bool:
        try:
            self.told.append(dict(self._crawl.rpc().get_batch(BATCH)))
        except (OSError, Unavailable):
            return False  # the member that was asked died, or ZooKeeper is starved for a moment
        return self.told[-1]["state"] in ("done", "failed", "cancelled")

    @property
    def last(self) -> dict[str, Any]:
        return self.told[-1]


def test_a_scheduler_killed_in_the_middle_makes_nothing_missing_and_little_twice(
    crawl: Crawl, databases: Path, echo: Echo, eventually: Eventually
) -> None:
    victim = crawl.scheduler("--scheduler-cls", "tests.integration.odd_components.DyingScheduler")
    crawl.scheduler(), crawl.scheduler()
    cluster = crawl.settled()
    member = crawl.member(victim)
    assert member is not None
    names = names_of(SHARED)
    its = {name for name in names if owner_of(cluster, name) == member}
    assert len(its) > DIES_AT
    insert(databases, dict.fromkeys(names, ""))

    batch = submit(crawl, "start", {"all": True})
    assert victim.wait(timeout=100) == -signal.SIGKILL

    follower = Follower(crawl)
    eventually(follower.is_over, within=200)
    eventually(lambda: len(echo.started) == SHARED, within=100)
    eventually(lambda: all_succeeded(crawl, names), within=100)

    assert (follower.last["state"], follower.last["done"]) == ("done", SHARED)
    assert sum(batch["jobs"].values()) <= Settings().slots
    assert max(echo.started.values()) <= 2
    assert {name for name, count in echo.started.items() if count > 1} <= its
    eventually(lambda: kept_as_done(crawl) == sorted(names))


def test_projects_deleted_while_they_crawl_leave_nothing(
    crawl: Crawl, databases: Path, redis_url: str, eventually: Eventually
) -> None:
    crawl.scheduler(), crawl.scheduler()
    for component in COMPONENTS:
        crawl.start(component)
    crawl.start("processor", "--processor-cls", "tests.integration.odd_components.TellingProcessor")
    crawl.settled()
    names = names_of(DELETED)
    keep = ["kept"]
    insert(databases, {name: chain_script(crawl.site.url, name) for name in [*names, *keep]})
    crawl.rpc().submit_operation("start", {"all": True}, {}, "", "start")
    crawl.wait_for(600)

    submit(crawl, "delete", {"pattern": "p*"})
    follower = Follower(crawl)
    eventually(follower.is_over, within=150)
    assert (follower.last["state"], follower.last["done"]) == ("done", DELETED)

    eventually(lambda: not traces(crawl, databases, redis_url))
    until = time.monotonic() + WATCHED
    while time.monotonic() < until:
        assert traces(crawl, databases, redis_url) == {}
        time.sleep(1)  # it is the watch, not the wait for something
    crawl.projects = keep
    crawl.end()


@pytest.mark.soak
def test_ten_thousand_projects_are_few_jobs_with_progress(
    crawl: Crawl, databases: Path, eventually: Eventually
) -> None:
    for _ in range(3):
        crawl.scheduler()
    crawl.settled()
    insert(databases, dict.fromkeys(names_of(10_000), ""))

    batch = crawl.rpc().submit_operation("group", {"all": True}, {"group": "news"}, "", BATCH)
    follower = Follower(crawl)
    eventually(follower.is_over, within=300)

    assert sum(batch["jobs"].values()) == Settings().slots
    assert (follower.last["state"], follower.last["done"]) == ("done", 10_000)
    told = [each["done"] for each in follower.told]
    assert told == sorted(told)
    assert len(set(told)) > 3
    assert crawl.rpc().list_projects({"group": "news"}, "name", 0, 1)["total"] == 10_000


# --- what is found ------------------------------------------------------------------------------


def owner_of(cluster: Any, name: str) -> MemberId | None:
    owner = cluster.owner_of(name)
    return next((member for member, record in cluster.members.items() if record == owner), None)


def all_succeeded(crawl: Crawl, names: Sequence[str]) -> bool:
    taskdb = crawl.database("task")
    return all(
        (taskdb.get_task(name, "on_start", ["status"]) or {}).get("status") == taskdb.SUCCESS
        for name in names
    )


def traces(crawl: Crawl, folder: Path, redis_url: str) -> dict[str, list[str]]:
    """Return where deleted projects, whose names begin with p, can be found."""
    found = {
        "rows": [row["name"] for row in crawl.database("project").get_all(fields=["name"])],
        "tasks": tables(folder / "task.db"),
        "results": tables(folder / "result.db"),
        "records": recorded(redis_url),
        "scripts": json.loads((folder / TOLD).read_text(encoding="utf-8")),
    }
    for number, record in enumerate(crawl.directory.members().values()):
        rpc = crawl.rpc(record)
        found[f"member {number}"] = list(rpc.local_get_projects_pause_status())
        for window in ("5m_time", "5m", "1h", "1d", "all"):
            found[f"counter {window} {number}"] = list(rpc.local_counter(window, "sum"))
    theirs = {place: [name for name in names if is_deleted(name)] for place, names in found.items()}
    return {place: names for place, names in theirs.items() if names}


def is_deleted(name: str) -> bool:
    return name.startswith("p") and name[1:].isdigit()


def tables(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [name.partition("_")[2] for (name,) in rows]


def recorded(redis_url: str) -> list[str]:
    """Return the projects in slot records."""
    slots = Settings().slots
    with closing(connect(redis_url, 0, slots)) as queues:
        records = queues.records.load_many(range(slots))
    return [name for record in records.values() for name in record["projects"]]
