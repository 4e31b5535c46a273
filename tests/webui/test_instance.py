"""pyspider's web UI, fed by a real cluster."""

import os
import signal
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError, Unavailable
from pyspider_zk.metrics.families import FAMILIES, Source
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.webui.instance import ClusterWebUI, RequestsInHand
from pyspider_zk.webui.page_data import Answering
from tests.metrics.reading import family_of, get, parsed, undeclared
from tests.support.connected import looking
from tests.support.live_cluster import DEADLINE, LiveCluster
from tests.support.memory_queues import MemoryBroker
from tests.support.ports import own_port
from tests.webui.conftest import NAMES, Eventually


def present(settings: Settings) -> list[str]:
    with looking(settings) as directory:
        found = directory.read().components.get(ComponentKind.WEBUI, {})
    return [component.address for component in found.values()]


@pytest.mark.zk
def test_it_is_present_while_it_runs(ui: ClusterWebUI, cluster: LiveCluster) -> None:
    with ui.joined(cluster.settings, cluster.queues(), "here:5000"):
        assert present(cluster.settings) == ["here:5000"]
        assert isinstance(ui.config["scheduler_rpc"], Answering)
    assert present(cluster.settings) == []


@pytest.mark.zk
def test_afterwards_the_application_is_as_before(ui: ClusterWebUI, cluster: LiveCluster) -> None:
    # given
    before = dict(ui.config)
    queues = cluster.queues()
    # when
    with ui.joined(cluster.settings, queues):
        router = ui.config["scheduler_rpc"]._router
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
    ui: ClusterWebUI, cluster: LiveCluster
) -> None:
    # given
    queues = cluster.queues()
    queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, {}) for slot in (0, 0, 7)])
    queues.slot_queues.publish([Message(QueueKind.STATUS, 3, {})])
    cluster.broker.inboxes[QueueKind.NEWTASK].append(b"")
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
    queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, {}) for slot in range(3)])
    with ui.joined(cluster_settings, queues):
        shown = ui.flask_app.test_client().get("/queues").get_json()
    assert (shown["newtask_queue"], shown["status_queue"]) == (3, 0)


@pytest.mark.zk
def test_without_a_scheduler_the_views_answer_as_pyspiders(
    ui: ClusterWebUI, cluster: LiveCluster
) -> None:
    cluster.project("p")
    with ui.joined(cluster.settings, cluster.queues()):
        client = ui.flask_app.test_client()
        assert client.get("/").headers["Location"] == "/cluster/projects"
        assert client.get("/counter").get_json() == {}
        assert client.get("/active_tasks").status_code == 502
        assert client.post("/run", data={"project": "p"}).get_json() == {"result": False}
        change = {"pk": "p", "name": "status", "value": "STOP"}
        assert client.post("/update", data=change).text == "rpc error"


@pytest.mark.zk
def test_with_a_scheduler_the_views_tell_of_the_cluster(
    ui: ClusterWebUI, cluster: LiveCluster, eventually: Eventually
) -> None:
    cluster.project("p")
    with cluster.scheduler(), ui.joined(cluster.settings, cluster.queues()):
        client = ui.flask_app.test_client()
        eventually(lambda: client.get("/counter").get_json().get("p"))
        assert client.get("/counter").get_json()["p"]["paused"] is False
        assert client.post("/run", data={"project": "p"}).get_json() == {"result": True}
        eventually(lambda: [each["taskid"] for each in client.get("/active_tasks").get_json()])
        change = {"pk": "p", "name": "rate", "value": "2/3"}
        assert client.post("/update", data=change).text == "ok"


@pytest.mark.zk
def test_what_members_refuse_is_refused_with_their_reason(
    ui: ClusterWebUI, cluster_settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    """Without a secret they cannot know that somebody logged in here."""
    cluster = LiveCluster(tmp_path, replace(cluster_settings, secret=""))
    cluster.project("p", group="lock")
    ui.config.update(webui_username="ann", webui_password="pass", need_auth=False)  # noqa: S106
    with cluster.scheduler() as member, ui.joined(cluster.settings, cluster.queues()):
        eventually(lambda: len(member.fence.held) == cluster.settings.slots)
        client = ui.flask_app.test_client()
        answer = client.post("/run", data={"project": "p"}, auth=("ann", "pass"))
        assert (answer.status_code, "p is locked: set secret_file" in answer.text) == (403, True)


@pytest.mark.zk
def test_a_task_goes_through_any_member_to_the_slot_of_its_project(
    ui: ClusterWebUI, cluster: LiveCluster, eventually: Eventually
) -> None:
    # given
    cluster.project("p")
    with cluster.scheduler() as one, cluster.scheduler() as two:
        members = (one, two)
        slots = cluster.settings.slots
        eventually(lambda: all(each.fence.held for each in members))
        eventually(lambda: sum(len(each.fence.held) for each in members) == slots)
        owner = next(each for each in members if slot_of("p", slots) in each.fence.held)
        with ui.joined(cluster.settings, cluster.queues()):
            # when
            rpc = ui.config["scheduler_rpc"]
            task = {"taskid": "t", "project": "p", "url": "data:,t", "schedule": {"exetime": 9e9}}
            eventually(lambda: rpc.newtask(task))
            # then
            eventually(lambda: "p" in owner.projects and len(owner.projects["p"].task_queue))
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
def test_it_serves_until_sigterm(
    ui: ClusterWebUI, as_configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setenv("PYSPIDER_ZK_INSECURE", "true")
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
    port = own_port()
    # when
    try:
        visitor.start()
        ui.run("0.0.0.0", port)  # noqa: S104 - as it was told
    finally:
        signal.signal(signal.SIGTERM, before)
    # then
    visitor.join(DEADLINE)
    assert seen == [200, [f"127.0.0.1:{port}"]]
    assert not not_ours.is_set()
    assert present(as_configured) == []


@pytest.mark.parametrize("host", ["", "0.0.0.0", "192.0.2.1", "box"])  # noqa: S104 - refused
def test_it_does_not_listen_for_others_without_a_login(ui: ClusterWebUI, host: str) -> None:
    with pytest.raises(ConfigError, match=r"run Python.*--need-auth.*--insecure"):
        ui.run(host, 0)
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    with pytest.raises(ConfigError, match=r"run Python.*--need-auth.*--insecure"):
        ui.run(host, 0)


def test_it_does_not_listen_on_what_is_left_of_a_port(ui: ClusterWebUI) -> None:
    with pytest.raises(ConfigError, match="port: 70000 must be a port from 0 to 65535"):
        ui.run("127.0.0.1", 70000)


def test_a_login_that_nobody_has_is_refused(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui.config.update(need_auth=True)
    with pytest.raises(ConfigError, match="need_auth: nobody can log in"):
        ui.run()
    ui.config.update(webui_username="ann")
    with pytest.raises(ConfigError, match="--username and --password, or none"):
        ui.run()
    monkeypatch.setenv("PYSPIDER_ZK_USERS", "/nowhere/users.json")
    with pytest.raises(ConfigError, match=r"/nowhere/users\.json.*pyspider-zk user set"):
        ui.run()


@pytest.mark.zk
def test_a_change_by_a_page_is_in_the_event_log(ui: ClusterWebUI, cluster: LiveCluster) -> None:
    cluster.project("p")
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    with ui.joined(cluster.settings, cluster.queues()):
        client = ui.flask_app.test_client()
        headers = _login("ann", "secret")
        client.post("/debug/p/save", data={"script": "# new"}, headers=headers)
        asked = {"operation": "stop", "names": ["p"]}
        assert client.post("/api/v1/batches", json=asked, headers=headers).status_code == 202
        told = client.get("/api/v1/events").get_json()["items"]
    found = [(each["kind"], each["who"], each["data"]["projects"]) for each in told]
    assert found == [("script", "ann", ["p"]), ("batch", "ann", ["p"])]


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.usefixtures("as_configured")
def test_what_it_serves_is_guarded_pages_api_and_webdav(ui: ClusterWebUI) -> None:
    found = _visited(ui, {"Origin": "http://evil.example.org"})
    assert found == [200, 403, 403, 403, 207, 200]


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.usefixtures("as_configured")
def test_without_a_login_one_may_only_look_if_that_was_asked_for(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_LOGIN_TO_CHANGE", "yes")
    with pytest.raises(ConfigError, match="--username"):
        ui.run()
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    assert _visited(ui, {}) == [200, 401, 401, 401, 207, 200]


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.usefixtures("as_configured")
def test_a_viewer_may_look_at_everything_and_change_nothing(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPIDER_ZK_VIEWER_USERNAME", "eve")
    monkeypatch.setenv("PYSPIDER_ZK_VIEWER_PASSWORD", "look")
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    with pytest.raises(ConfigError, match="--need-auth"):
        ui.run()
    ui.config.update(need_auth=True)
    assert _visited(ui, _login("eve", "look")) == [200, 403, 403, 403, 207, 200]
    assert _visited(ui, _login("eve", "wrong")) == [401] * 6
    assert _visited(ui, _login("ann", "secret"))[0] == 200
    ui.config.update(webui_username="eve")
    with pytest.raises(ConfigError, match="another name"):
        ui.run()


def _login(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def _visited(ui: ClusterWebUI, headers: dict[str, str]) -> list[int]:
    """Serve, and return the statuses of some requests, half of which change something."""
    seen: list[int] = []
    requests = [("GET", "/api/v1/queues"), ("POST", "/api/v1/batches"), ("POST", "/update")]
    requests += [("PUT", "/dav/p.py"), ("PROPFIND", "/dav/"), ("GET", "/cluster/projects")]

    def visit() -> None:
        assert stock_app.ready.wait(DEADLINE)
        for method, path in requests:
            connection = HTTPConnection("127.0.0.1", stock_app.port, timeout=DEADLINE)
            connection.request(method, path, headers=headers)
            seen.append(connection.getresponse().status)
            connection.close()
        ui.quit()

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    ui.run("127.0.0.1", own_port())
    visitor.join(DEADLINE)
    return seen


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.usefixtures("as_configured")
def test_a_quit_while_it_joins_is_not_forgotten(
    ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    real = ui._feed

    def quit_meanwhile(*args: Any) -> dict[str, Any]:
        ui.quit()
        return real(*args)

    monkeypatch.setattr(ui, "_feed", quit_meanwhile)
    monkeypatch.setattr(stock_app, "run", lambda **_: pytest.fail("it was told to end"))
    # when
    ui.run("127.0.0.1", 0)


def test_it_passes_on_what_pyspider_sets(ui: ClusterWebUI) -> None:
    ui.debug = True
    assert stock_app.debug is True
    ui.debug = False
    assert stock_app.debug is ui.debug is False


def test_a_request_is_in_hand_until_it_is_answered() -> None:
    now = [0.0]
    seen: list[float] = []

    def app(_environ: Any, _start: Any) -> Iterator[bytes]:
        now[0] += 7
        seen.append(requests.age)
        return iter([b"answer"])

    requests = RequestsInHand(app, lambda: now[0])
    assert requests.age == 0
    assert list(requests({}, None)) == [b"answer"]
    assert (seen, requests.age) == ([7], 0)
    assert list(requests({"PATH_INFO": "/debug/p/run"}, None)) == [b"answer"]
    assert seen == [7, 0]  # a trial takes as long as its page and its script may


def test_a_request_that_fails_is_not_in_hand() -> None:
    def app(_environ: Any, _start: Any) -> Any:
        raise ValueError("wrong")

    now = [0.0]
    requests = RequestsInHand(app, lambda: now[0])
    with pytest.raises(ValueError, match="wrong"):
        requests({}, None)
    now[0] = 9
    assert requests.age == 0


@pytest.mark.zk
def test_a_web_ui_serves_metrics_while_it_runs(
    ui: ClusterWebUI, cluster: LiveCluster, eventually: Callable[..., Any]
) -> None:
    port = own_port()
    settings = replace(cluster.settings, metrics=f"127.0.0.1:{port}")
    with ui.joined(settings, cluster.queues()):
        eventually(lambda: get(port, "/readyz").status == 200)
        found = parsed(get(port, "/metrics").text)
    names = {family.name for series in found if (family := family_of(series.name))}
    assert names == {each.name for each in FAMILIES if each.source is Source.ALL}
    assert undeclared(found) == []
    with pytest.raises(ConnectionRefusedError):
        get(port, "/healthz")
