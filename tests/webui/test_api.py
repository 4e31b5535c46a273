"""The HTTP API of a real web UI at a real cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.client import Client
from pyspider_zk.config import Settings
from pyspider_zk.jobs.project_list import SORTS
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.live_cluster import LiveCluster
from tests.support.ports import own_port
from tests.webui.conftest import Eventually

pytestmark = pytest.mark.zk

PROBLEM = "application/problem+json"
FILTERS = [
    ("", ["archive", "news_a", "news_b"]),
    ("sort=-name", ["news_b", "news_a", "archive"]),
    ("pattern=news_*", ["news_a", "news_b"]),
    ("status=STOP", ["archive", "news_b"]),
    ("group=daily", ["news_a"]),
    ("status=STOP&pattern=n*", ["news_b"]),
    ("limit=1&offset=1", ["news_a"]),
    ("owner=7", []),
    ("owner=0", []),
    ("sort=group&limit=1", ["archive"]),
]

Ask = Callable[..., Any]


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster) -> Iterator[Any]:
    """Give a client of a web UI whose cluster was born and has no scheduler (any more)."""
    with cluster.scheduler():
        pass
    cluster.project("news_a", group="daily, lock")
    cluster.project("news_b", status="STOP")
    cluster.project("archive", status="STOP")
    with ui.joined(cluster.settings, cluster.queues()):
        yield stock_app.test_client()


# -- looking ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "names"), FILTERS)
def test_projects_are_filtered_sorted_and_paged(client: Any, query: str, names: list[str]) -> None:
    page = client.get(f"/api/v1/projects?{query}").get_json()
    assert [each["name"] for each in page["items"]] == names
    assert page["total"] == (3 if "limit" in query else len(names))


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_its_reverse(client: Any, sort: str) -> None:
    orders = [
        [each[sort] for each in client.get(f"/api/v1/projects?sort={key}").get_json()["items"]]
        for key in (sort, f"-{sort}")
    ]
    assert orders[0] == orders[1][::-1]


def test_a_project_tells_who_schedules_it(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    path = "/api/v1/projects/news_a"
    before = client.get(path).get_json()
    assert before["slot"] == slot_of("news_a", cluster.settings.slots)
    assert (before["owner"], before["address"]) == (None, None)
    with cluster.scheduler():
        eventually(lambda: client.get(path).get_json()["owner"] == 0)
        found = client.get(path).get_json()
        (member,) = client.get("/api/v1/members").get_json()["items"]
        assert client.get("/api/v1/members/0").get_json()["address"] == found["address"]
    assert (found["phase"], found["address"]) == ("owned", member["address"])


def test_the_assignment_has_a_row_for_each_slot(client: Any, cluster: LiveCluster) -> None:
    found = client.get("/api/v1/assignment").get_json()
    assert [row["slot"] for row in found["items"]] == list(range(cluster.settings.slots))
    assert found["unserved"] == cluster.settings.slots


def test_components_are_told_by_kind(client: Any) -> None:
    (component,) = client.get("/api/v1/components").get_json()["items"]["webui"]
    assert component["pid"] > 0


def test_queues_are_counted_with_the_dead_letters(client: Any, cluster: LiveCluster) -> None:
    queues = cluster.queues()
    queues.slot_queues.publish(
        [Message(QueueKind.NEWTASK, 3, {}), Message(QueueKind.STATUS, 3, {})]
    )
    cluster.broker.inboxes[QueueKind.NEWTASK].append(b"")
    found = client.get("/api/v1/queues").get_json()
    assert found == {
        "dead_letters": 0,
        "queues": {
            "newtask_queue": 2,
            "status_queue": 1,
            "scheduler2fetcher": 0,
            "fetcher2processor": 0,
            "processor2result": 0,
        },
    }


def test_events_are_read_on_from_the_last(client: Any) -> None:
    first = client.get("/api/v1/events?limit=2").get_json()
    assert len(first["items"]) == 2
    assert first["last"] == first["items"][-1]["sequence"]
    client.post("/api/v1/batches", json={"operation": "stop", "names": ["archive"]})
    (event,) = client.get(f"/api/v1/events?after={first['last']}").get_json()["items"]
    assert (event["kind"], event["data"]["operation"]) == ("batch", "stop")
    after = client.get(f"/api/v1/events?after={event['sequence']}").get_json()
    assert after == {"items": [], "last": event["sequence"]}


# -- jobs ------------------------------------------------------------------------------------


def test_what_was_asked_for_is_found_under_its_location(client: Any) -> None:
    answer = client.post(
        "/api/v1/batches", json={"operation": "stop", "names": ["news_b"], "id": "mine"}
    )
    assert answer.status_code == 202
    assert answer.headers["Location"].endswith("/api/v1/batches/mine")
    assert answer.get_json() == client.get("/api/v1/batches/mine").get_json()
    page = client.get("/api/v1/batches").get_json()
    assert [each["id"] for each in page["items"]] == ["mine"]
    assert (page["items"][0]["state"], page["items"][0]["total"]) == ("pending", 1)


def test_asking_twice_with_one_id_is_asking_once(client: Any) -> None:
    asked = {"operation": "stop", "names": ["news_b"], "id": "mine"}
    first, second = (client.post("/api/v1/batches", json=asked) for _ in range(2))
    assert second.status_code == 202
    assert first.get_json() == second.get_json()
    assert client.get("/api/v1/batches").get_json()["total"] == 1


def test_an_id_that_stands_for_something_else_is_refused(client: Any) -> None:
    asked = {"operation": "stop", "names": ["news_b"], "id": "mine"}
    client.post("/api/v1/batches", json=asked)
    answer = client.post("/api/v1/batches", json={**asked, "operation": "delete"})
    assert_problem(answer, 409, "'mine'")


def test_a_dry_run_does_nothing(client: Any) -> None:
    asked = {"operation": "run", "filter": {"status": "STOP"}, "dry_run": True}
    answer = client.post("/api/v1/batches", json=asked)
    plan = answer.get_json()
    assert (answer.status_code, plan["count"], plan["names"]) == (200, 2, ["archive", "news_b"])
    assert "not RUNNING or DEBUG" in plan["faults"][0]
    assert client.get("/api/v1/batches").get_json()["items"] == []


def test_another_choice_than_the_one_agreed_to_is_refused(
    client: Any, cluster: LiveCluster
) -> None:
    asked = {"operation": "delete", "filter": {"status": "STOP"}}
    plan = client.post("/api/v1/batches", json={**asked, "dry_run": True}).get_json()["digest"]
    cluster.project("newcomer", status="STOP")
    answer = client.post("/api/v1/batches", json={**asked, "plan": plan})
    assert_problem(answer, 409, "look again")
    assert client.get("/api/v1/batches").get_json()["items"] == []


def test_any_id_that_a_command_gave_is_found(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    with Client(cluster.settings) as python, cluster.scheduler():
        eventually(lambda: client.get("/api/v1/members").get_json()["items"])
        python.stop(names=["news_b"], batch="nightly/1 a")
    for path in ("nightly/1 a", "nightly%2F1%20a"):
        assert client.get(f"/api/v1/batches/{path}").get_json()["id"] == "nightly/1 a"
    assert client.delete("/api/v1/batches/nightly/1 a").status_code == 200


def test_a_batch_can_be_cancelled(client: Any) -> None:
    client.post("/api/v1/batches", json={"operation": "stop", "names": ["news_b"], "id": "mine"})
    answer = client.delete("/api/v1/batches/mine")
    assert (answer.status_code, answer.get_json()["state"]) == (200, "cancelled")


def test_a_batch_is_carried_out(client: Any, cluster: LiveCluster, eventually: Eventually) -> None:
    with cluster.scheduler():
        asked = {"operation": "group", "filter": {"status": "STOP"}, "arguments": {"group": "g"}}
        path = client.post("/api/v1/batches", json=asked).headers["Location"]
        eventually(lambda: client.get(path).get_json()["state"] == "done")
        assert client.get(path).get_json()["done"] == 2
        assert client.get("/api/v1/projects?group=g").get_json()["total"] == 2


def test_failed_tasks_are_fetched_again(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    tasks = cluster.database("task")
    for taskid, exception in (("one", "HTTP 503"), ("two", "KeyError")):
        track = {"process": {"ok": False, "exception": exception}}
        tasks.insert("archive", taskid, {"url": "u", "status": tasks.FAILED, "track": track})
    asked = {"operation": "refetch", "names": ["archive"], "arguments": {"error": "503"}}
    plan = client.post("/api/v1/batches", json={**asked, "dry_run": True}).get_json()
    assert plan["faults"] == ["not RUNNING or DEBUG: archive; start them instead"]
    cluster.database("project").update("archive", status="RUNNING")
    with cluster.scheduler():
        path = client.post("/api/v1/batches", json=asked).headers["Location"]
        eventually(lambda: client.get(path).get_json()["state"] == "done")
    assert tasks.status_count("archive") == {tasks.ACTIVE: 1, tasks.FAILED: 1}
    texts = [event["text"] for event in client.get("/api/v1/events").get_json()["items"]]
    assert "refetch of 1 project was asked for" in texts


def test_what_failed_is_retried_as_a_new_batch(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    with cluster.scheduler():
        asked = {"operation": "run", "names": ["news_b"], "id": "mine"}
        client.post("/api/v1/batches", json=asked)
        eventually(lambda: client.get("/api/v1/batches/mine").get_json()["state"] == "failed")
        answer = client.post("/api/v1/batches/mine/retry")
        assert answer.status_code == 202
        again = answer.get_json()
        assert (again["operation"], again["total"]) == ("run", 1)
        assert again["id"] != "mine"


def test_nothing_is_retried_where_nothing_failed(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    with cluster.scheduler():
        client.post(
            "/api/v1/batches", json={"operation": "stop", "names": ["news_b"], "id": "mine"}
        )
        eventually(lambda: client.get("/api/v1/batches/mine").get_json()["state"] == "done")
        assert_problem(client.post("/api/v1/batches/mine/retry"), 422, "failed for no project")


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [({"rate": 9, "burst": 9}, {"rate": 2, "burst": 9}), ({"rate": 1, "burst": 1},) * 2],
)
def test_rates_stay_below_the_web_ui_s_limit(
    client: Any, ui: ClusterWebUI, arguments: Any, kept: Any
) -> None:
    ui.config["max_rate"] = 2
    asked = {"operation": "rate", "names": ["news_b"], "arguments": arguments}
    assert client.post("/api/v1/batches", json=asked).get_json()["arguments"] == kept


# -- what is refused -------------------------------------------------------------------------


REFUSED: list[tuple[Any, int, str]] = [
    ({"operation": "start", "names": ["nobody", "news_b"]}, 422, "nobody"),
    ({"operation": "begin", "names": ["news_b"]}, 422, "operation"),
    ({"operation": "start"}, 422, "no projects are named"),
    ({"operation": "start", "filter": {"statu": "STOP"}}, 422, "statu"),
    ({"operation": "rate", "names": ["news_b"], "arguments": {"rate": -1}}, 422, "rate"),
    ({"operation": "start", "names": ["news_b"], "id": "a/b"}, 422, "id"),
    ({"operation": "start", "names": ["news_b"], "priority": 1000}, 422, "priority"),
    (["start"], 422, "Invalid input"),
    ({"operation": "stop", "filter": {"pattern": "[!\ud800]*"}}, 422, "pattern must be text"),
    ({"operation": "stop", "filter": {"pattern": "", "status": "RUNNING"}}, 422, "pattern"),
    (
        {"operation": "group", "names": ["news_b"], "arguments": {"group": "\ud800"}},
        422,
        "group must be text",
    ),
]


@pytest.mark.parametrize(("asked", "status", "culprit"), REFUSED)
def test_a_wrong_request_is_refused_by_name(
    client: Any, asked: Any, status: int, culprit: str
) -> None:
    assert_problem(client.post("/api/v1/batches", json=asked), status, culprit)
    assert client.get("/api/v1/batches").get_json()["total"] == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/projects/nobody"),
        ("GET", "/api/v1/members/9"),
        ("GET", "/api/v1/batches/none"),
        ("DELETE", "/api/v1/batches/none"),
        ("POST", "/api/v1/batches/none/retry"),
        ("GET", "/api/v1/nothing"),
    ],
)
def test_what_there_is_not_is_not_found(client: Any, method: str, path: str) -> None:
    assert_problem(client.open(path, method=method), 404, "")


@pytest.mark.parametrize("query", ["statu=STOP", "limit=0", "limit=1001", "offset=-1", "sort=age"])
def test_a_filter_with_a_slip_does_not_mean_everything(client: Any, query: str) -> None:
    answer = client.get(f"/api/v1/projects?{query}")
    assert_problem(answer, 422, query.partition("=")[0])
    assert query.partition("=")[0] in answer.get_json()["errors"]["query"]


def test_only_json_is_taken(client: Any) -> None:
    body = '{"operation": "stop", "names": ["news_b"]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/ld+json", None):
        answer = client.post("/api/v1/batches", data=body, content_type=kind)
        assert_problem(answer, 415, "application/json")


@pytest.mark.parametrize("value", ['"', "1" * 5000, str(10**400), "NaN", "[" * 100_000, "\xff"])
def test_what_is_no_json_to_everybody_is_refused(client: Any, value: str) -> None:
    body = f'{{"operation": "rate", "names": ["news_b"], "arguments": {{"rate": {value}}}}}'
    answer = client.post(
        "/api/v1/batches", data=body.encode("latin-1"), content_type="application/json"
    )
    assert_problem(answer, 400, "JSON")


def test_a_body_without_measure_is_refused(client: Any) -> None:
    body = b'"' + b" " * 8 * 1024 * 1024 + b'"'
    answer = client.post("/api/v1/batches", data=body, content_type="application/json")
    assert_problem(answer, 413, "")


def test_other_sites_are_refused(client: Any) -> None:
    asked = {"operation": "stop", "names": ["news_b"]}
    headers = {"Origin": "http://evil.example.org"}
    assert_problem(client.post("/api/v1/batches", json=asked, headers=headers), 403, "evil")


# -- what is away ----------------------------------------------------------------------------


def test_a_message_queue_that_is_away_is_told(ui: ClusterWebUI, cluster: LiveCluster) -> None:
    queues = connect("redis://:secret@127.0.0.1:1/0", 0, cluster.settings.slots)
    with cluster.scheduler(), ui.joined(cluster.settings, queues):
        answer = stock_app.test_client().get("/api/v1/queues")
    assert_problem(answer, 503, "127.0.0.1:1")
    assert "secret" not in answer.text


def test_a_database_that_is_away_is_told(client: Any, tmp_path: Path) -> None:
    (tmp_path / "project.db").write_bytes(b"this is no database" * 100)
    assert_problem(client.get("/api/v1/projects"), 503, "project database")
    asked = {"operation": "stop", "names": ["news_b"]}
    assert_problem(client.post("/api/v1/batches", json=asked), 503, "project database")


@pytest.mark.slow
def test_a_zookeeper_that_is_away_is_told(ui: ClusterWebUI, tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zookeeper", own_port())
    server.start()
    try:
        settings = Settings(hosts=server.address, root="/away", renewal=0.2, lease=1.0)
        cluster = LiveCluster(tmp_path, settings)
        with cluster.scheduler():
            pass
        for name in "ab":
            cluster.project(name)
        with ui.joined(settings, cluster.queues()):
            server.stop()
            client = stock_app.test_client()
            for path in ("members", "batches", "events", "assignment"):
                assert_problem(client.get(f"/api/v1/{path}"), 503, "ZooKeeper")
            for path in ("projects", "workload"):
                found = client.get(f"/api/v1/{path}?pattern=a*&sort=-name").get_json()
                assert [(row["name"], row["owner"]) for row in found["items"]] == [("a", None)]
                assert "ZooKeeper" in found["missing"][0]
                for query in ("owner=0", "sort=-owner"):
                    assert_problem(client.get(f"/api/v1/{path}?{query}"), 503, "ZooKeeper")
            server.start()
    finally:
        server.stop()


# -- who may ---------------------------------------------------------------------------------


def test_locked_projects_need_a_login(client: Any, ui: ClusterWebUI) -> None:
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    for asked in ({"names": ["news_b", "news_a"]}, {"filter": {"pattern": "n*"}}):
        answer = client.post("/api/v1/batches", json={"operation": "delete", **asked})
        assert_problem(answer, 401, "news_a")
        assert answer.get_json()["projects"] == ["news_a"]
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
    allowed = client.post(
        "/api/v1/batches",
        json={"operation": "stop", "names": ["news_a"]},
        auth=("ann", "secret"),
    )
    assert (allowed.status_code, allowed.get_json()["user"]) == (202, "ann")
    anonymous = client.post("/api/v1/batches", json={"operation": "stop", "names": ["news_b"]})
    assert anonymous.get_json()["user"] == ""


def test_a_plan_tells_which_projects_are_locked(client: Any, ui: ClusterWebUI) -> None:
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    asked = {"operation": "stop", "filter": {"pattern": "n*"}, "dry_run": True}
    for login, locked in ((None, 1), (("ann", "secret"), 0)):
        answer = client.post("/api/v1/batches", json=asked, auth=login)
        found = [fault for fault in answer.get_json()["faults"] if "locked: log in" in fault]
        assert (answer.status_code, len(found)) == (200, locked)


def test_a_name_that_nobody_checks_stands_nowhere(client: Any) -> None:
    asked = {"operation": "stop", "names": ["news_b"]}
    answer = client.post("/api/v1/batches", json=asked, auth=("the boss", ""))
    assert (answer.status_code, answer.get_json()["user"]) == (202, "")


def test_retrying_locked_projects_needs_a_login(
    client: Any, ui: ClusterWebUI, cluster: LiveCluster, eventually: Eventually
) -> None:
    ui.config.update(webui_username="ann", webui_password="secret")  # noqa: S106 - a test's
    with cluster.scheduler():
        asked = {"operation": "run", "names": ["news_b"], "id": "mine"}
        client.post("/api/v1/batches", json=asked)
        eventually(lambda: client.get("/api/v1/batches/mine").get_json()["state"] == "failed")
        ui.config["projectdb"].update("news_b", group="lock")
        assert_problem(client.post("/api/v1/batches/mine/retry"), 401, "news_b")
        again = client.post("/api/v1/batches/mine/retry", auth=("ann", "secret"))
        assert again.status_code == 202


def test_it_is_protected_as_the_pages_are(client: Any, ui: ClusterWebUI) -> None:
    ui.config.update(need_auth=True, webui_username="ann", webui_password="secret")  # noqa: S106
    for path in ("/api/v1/members", "/api/v1/openapi.json", "/api/v1/nothing"):
        assert_problem(client.get(path), 401, "log in")
        assert client.get(path, auth=("ann", "wrong")).status_code == 401
    assert client.get("/api/v1/members", auth=("ann", "secret")).status_code == 200


def assert_problem(answer: Any, status: int, culprit: str) -> None:
    found = answer.get_json()
    assert (answer.status_code, answer.mimetype) == (status, PROBLEM), answer.text
    assert found["status"] == status
    assert culprit in found["detail"]
