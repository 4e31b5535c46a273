"""pyspider's web UI, fed by a real cluster."""

import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspider.webui  # noqa: F401 - it registers the views
import pytest
from pyspider.database import connect_database
from pyspider.webui.app import app as stock_app

from pyspider_zk.config import Settings
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.core.slots import slot_of
from pyspider_zk.errors import Unavailable
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.hooks.router import Router
from pyspider_zk.queues.api import Message, Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.memory import MemoryBroker
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.zookeeper.directory import Directory

DEADLINE = 20.0
NAMES = ["newtask_queue", "status_queue", "scheduler2fetcher", "fetcher2processor"]
NAMES += ["processor2result"]

Eventually = Callable[..., None]


class Cluster:
    """Databases, the message queue of this process, and schedulers in threads."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.broker = MemoryBroker()
        self.dispatched: queue.Queue[Any] = queue.Queue()

    def database(self, kind: str) -> Any:
        return connect_database(f"sqlite+{kind}db:///{self.folder}/{kind}.db")

    def queues(self) -> Queues:
        return self.broker.queues(self.settings.slots)

    def project(self, name: str) -> None:
        row = {"status": "RUNNING", "script": "class Handler: pass", "group": ""}
        self.database("project").insert(name, {**row, "comments": "", "rate": 1, "burst": 1})

    @contextmanager
    def scheduler(self) -> Iterator[ClusterScheduler]:
        """Run a scheduler while the block runs."""
        made = ClusterScheduler(
            taskdb=self.database("task"),
            projectdb=self.database("project"),
            resultdb=self.database("result"),
            newtask_queue=None,
            status_queue=None,
            out_queue=self.dispatched,
            data_path=str(self.folder),
            settings=self.settings,
            queues=self.queues(),
        )
        threads = [
            threading.Thread(target=made.xmlrpc_run, kwargs={"port": 0}, daemon=True),
            threading.Thread(target=made.run, daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield made
        finally:
            made.quit()
            for thread in threads:
                thread.join(DEADLINE)
                assert not thread.is_alive()


@pytest.fixture
def cluster(tmp_path: Path, cluster_settings: Settings) -> Cluster:
    return Cluster(tmp_path, cluster_settings)


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[ClusterWebUI]:
    """Give the web UI as pyspider prepares it; its application is one for the whole process."""
    before = dict(stock_app.config)
    made = ClusterWebUI(stock_app)
    for kind in ("task", "project", "result"):
        path = f"sqlite+{kind}db:///{tmp_path}/{kind}.db"
        made.config[f"{kind}db"] = connect_database(path)
    made.config["queues"] = {name: queue.Queue() for name in NAMES}
    yield made
    stock_app.config.clear()
    stock_app.config.update(before)


def present(settings: Settings) -> list[str]:
    with Directory(settings) as directory:
        found = directory.read().components.get(ComponentKind.WEBUI, {})
    return [component.address for component in found.values()]


@pytest.mark.zk
def test_it_is_present_while_it_runs(ui: ClusterWebUI, cluster: Cluster) -> None:
    with ui.joined(cluster.settings, cluster.queues(), "here:5000"):
        assert present(cluster.settings) == ["here:5000"]
        assert isinstance(ui.config["scheduler_rpc"], Router)
    assert present(cluster.settings) == []


@pytest.mark.zk
def test_afterwards_the_application_is_as_before(ui: ClusterWebUI, cluster: Cluster) -> None:
    # given
    before = dict(ui.config)
    queues = cluster.queues()
    # when
    with ui.joined(cluster.settings, queues):
        router = ui.config["scheduler_rpc"]
    # then
    assert dict(ui.config) == before
    with pytest.raises(Unavailable, match="closed"):
        queues.slot_queues.publish([])
    with pytest.raises(RuntimeError):
        router._pool.submit(print)


def test_a_cluster_that_cannot_be_joined_changes_nothing(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise Unavailable("no ZooKeeper")

    before = dict(ui.config)
    queues = MemoryBroker().queues(8)
    monkeypatch.setattr("pyspider_zk.webui.instance.presence", refused)
    with pytest.raises(Unavailable, match="no ZooKeeper"), ui.joined(Settings(), queues):
        pytest.fail("nothing answers there")
    assert dict(ui.config) == before
    with pytest.raises(Unavailable, match="closed"):
        queues.slot_queues.publish([])


@pytest.mark.zk
def test_the_five_queues_keep_their_names_and_have_the_sums(
    ui: ClusterWebUI, cluster: Cluster
) -> None:
    # given
    queues = cluster.queues()
    queues.slot_queues.publish([Message(Kind.NEWTASK, slot, {}) for slot in (0, 0, 7)])
    queues.slot_queues.publish([Message(Kind.STATUS, 3, {})])
    cluster.broker.inboxes[Kind.NEWTASK].append(b"")
    ui.config["queues"]["scheduler2fetcher"].put("task")
    # when
    with ui.joined(cluster.settings, queues):
        shown = ui.flask_app.test_client().get("/queues").get_json()
    # then
    assert shown == dict(zip(NAMES, [4, 1, 1, 0, 0], strict=True))


@pytest.mark.zk
@pytest.mark.redis
def test_the_sums_come_from_redis(
    ui: ClusterWebUI, cluster_settings: Settings, redis_url: str
) -> None:
    queues = connect(redis_url, 0, cluster_settings.slots)
    queues.slot_queues.publish([Message(Kind.NEWTASK, slot, {}) for slot in range(3)])
    with ui.joined(cluster_settings, queues):
        shown = ui.flask_app.test_client().get("/queues").get_json()
    assert (shown["newtask_queue"], shown["status_queue"]) == (3, 0)


@pytest.mark.zk
def test_without_a_scheduler_the_views_answer_as_pyspiders(
    ui: ClusterWebUI, cluster: Cluster
) -> None:
    cluster.project("p")
    with ui.joined(cluster.settings, cluster.queues()):
        client = ui.flask_app.test_client()
        assert client.get("/").status_code == 200
        assert client.get("/counter").get_json() == {}
        assert client.get("/tasks").status_code == 502
        assert client.get("/active_tasks").status_code == 502
        assert client.post("/run", data={"project": "p"}).get_json() == {"result": False}
        change = {"pk": "p", "name": "status", "value": "STOP"}
        assert client.post("/update", data=change).text == "rpc error"


@pytest.mark.zk
def test_with_a_scheduler_the_views_tell_of_the_cluster(
    ui: ClusterWebUI, cluster: Cluster, eventually: Eventually
) -> None:
    cluster.project("p")
    with cluster.scheduler(), ui.joined(cluster.settings, cluster.queues()):
        client = ui.flask_app.test_client()
        eventually(lambda: client.get("/counter").get_json().get("p"))
        assert client.get("/counter").get_json()["p"]["paused"] is False
        assert client.post("/run", data={"project": "p"}).get_json() == {"result": True}
        eventually(lambda: [each["taskid"] for each in client.get("/active_tasks").get_json()])
        assert client.get("/tasks").status_code == 200
        change = {"pk": "p", "name": "rate", "value": "2/3"}
        assert client.post("/update", data=change).text == "ok"


@pytest.mark.zk
def test_a_task_goes_through_any_member_to_the_slot_of_its_project(
    ui: ClusterWebUI, cluster: Cluster, eventually: Eventually
) -> None:
    # given
    cluster.project("p")
    with cluster.scheduler() as one, cluster.scheduler() as two:
        members = (one, two)
        slots = cluster.settings.slots
        eventually(lambda: all(each.gate.held for each in members))
        eventually(lambda: sum(len(each.gate.held) for each in members) == slots)
        owner = next(each for each in members if slot_of("p", slots) in each.gate.held)
        with ui.joined(cluster.settings, cluster.queues()):
            # when
            rpc = ui.config["scheduler_rpc"]
            task = {"taskid": "t", "project": "p", "url": "data:,t", "schedule": {"exetime": 9e9}}
            eventually(lambda: rpc.newtask(task))
            # then
            eventually(lambda: "p" in owner.projects and owner.projects["p"].task_queue.size())
            assert rpc.size() == 1


# -- run -------------------------------------------------------------------------------------


@pytest.fixture
def as_configured(
    cluster_settings: Settings, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> Settings:
    """Let this process find its settings and queues as a command does."""
    for name in ("hosts", "root", "slots", "renewal", "lease", "session"):
        monkeypatch.setenv(f"PYSPIDER_ZK_{name.upper()}", str(getattr(cluster_settings, name)))
    monkeypatch.setenv("AMQP_URL", redis_url)
    return cluster_settings


@pytest.mark.zk
@pytest.mark.redis
def test_it_serves_until_sigterm(ui: ClusterWebUI, as_configured: Settings) -> None:
    # given
    not_ours = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: not_ours.set())
    seen: list[Any] = []

    def visit() -> None:
        assert stock_app.ready.wait(DEADLINE)
        with urlopen(f"http://127.0.0.1:{stock_app.port}/queues", timeout=DEADLINE) as answer:
            seen.append(answer.status)
        seen.append(present(as_configured))
        os.kill(os.getpid(), signal.SIGTERM)

    visitor = threading.Thread(target=visit, daemon=True)
    port = _free_port()
    # when
    try:
        visitor.start()
        ui.run("0.0.0.0", port)  # noqa: S104 - as pyspider does
    finally:
        signal.signal(signal.SIGTERM, before)
    # then
    visitor.join(DEADLINE)
    assert seen == [200, [f"127.0.0.1:{port}"]]
    assert not not_ours.is_set()
    assert present(as_configured) == []


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.usefixtures("as_configured")
def test_a_quit_while_it_joins_is_not_forgotten(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    real = ui._fed_by

    @contextmanager
    def quit_meanwhile(*args: Any) -> Iterator[None]:
        with real(*args):
            ui.quit()
            yield

    monkeypatch.setattr(ui, "_fed_by", quit_meanwhile)
    monkeypatch.setattr(stock_app, "run", lambda **_: pytest.fail("it was told to end"))
    # when
    ui.run("127.0.0.1", 0)


def test_it_passes_on_what_pyspider_sets(ui: ClusterWebUI) -> None:
    ui.debug = True
    assert stock_app.debug is True
    ui.debug = False
    assert stock_app.debug is ui.debug is False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
