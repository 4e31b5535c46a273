"""What the API tells of failures, of a real web UI at a real cluster."""

import json
from typing import Any

import pytest

from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.failing_tasks import store_failures
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk


@pytest.fixture
def failing(client: Any, ui: ClusterWebUI, cluster: LiveCluster) -> Any:
    """Give the client once two projects have tasks that fail in two ways."""
    for name in ("news", "shop"):
        cluster.project(name)
    taskdb = ui.config["taskdb"]
    store_failures(taskdb, "news", "KeyError: 'title'", "a", "b")
    store_failures(taskdb, "shop", "KeyError: 'title'", "a c")
    store_failures(taskdb, "shop", "HTTP 404: Not Found", "d", at=2e9)
    return client


def ask(client: Any, path: str, code: int = 200) -> Any:
    answer = client.get(f"/api/v1/failures{path}")
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_where_nothing_fails_nothing_is_told(client: Any) -> None:
    assert ask(client, "")["items"] == []
    assert ask(client, "/tasks") == {"items": [], "next": None}
    assert ask(client, "/projects") == {"items": []}


def test_kinds_are_counted_over_all_projects(failing: Any) -> None:
    found = ask(failing, "")
    assert found["total"] == 2
    assert found["items"][0] == {
        "kind": "KeyError: 'title'",
        "callback": "page",
        "status_code": 200,
        "tasks": 3,
        "given_up": 3,
        "projects": 2,
        "first_at": 1e9,
        "last_at": 1e9 + 1,
    }
    assert [each["kind"] for each in ask(failing, "?offset=1")["items"]] == ["HTTP 404: Not Found"]
    assert [each["tasks"] for each in ask(failing, "?project=shop")["items"]] == [1, 1]
    assert [each["tasks"] for each in ask(failing, "?error=TITLE&url=/a")["items"]] == [2]


def test_tasks_of_a_kind_come_with_their_tracebacks_page_by_page(failing: Any) -> None:
    query = "/tasks?kind=KeyError: 'title'&limit=2"
    first = ask(failing, query)
    assert [(each["project"], each["taskid"]) for each in first["items"]] == [
        ("news", "b"),
        ("news", "a"),
    ]
    assert first["items"][0]["logs"] == "Traceback of b"
    second = ask(failing, f"{query}&cursor={first['next']}")
    assert [each["taskid"] for each in second["items"]] == ["a c"]
    assert second["next"] is None


def test_a_cursor_is_behind_a_task_whose_id_has_spaces(failing: Any) -> None:
    page = ask(failing, "/tasks?project=shop&limit=1&kind=KeyError: 'title'")
    assert page["items"][0]["taskid"] == "a c"
    assert ask(failing, f"/tasks?project=shop&cursor={page['next']}")["items"] == []


def test_the_projects_of_a_kind_that_there_are_are_named(failing: Any, ui: ClusterWebUI) -> None:
    named = [{"name": "news", "tasks": 2}, {"name": "shop", "tasks": 1}]
    assert ask(failing, "/projects?kind=KeyError: 'title'") == {"items": named}
    store_failures(ui.config["taskdb"], "gone", "KeyError: 'title'", "x")
    assert ask(failing, "/projects?kind=KeyError: 'title'") == {"items": named}


@pytest.mark.parametrize(
    "path",
    [
        *("?kinds=x", "?status_code=x", "?since=soon", "?kind=%00", "/tasks?cursor=x"),
        *("/tasks?cursor=soon a b", "/tasks?cursor=nan a b", "/tasks?cursor=1 a b"),
        f"/tasks?cursor={(1e9).hex()} a %00",
    ],
)
def test_a_wrong_question_is_refused(client: Any, path: str) -> None:
    assert client.get(f"/api/v1/failures{path}").status_code in (400, 422)


def test_a_database_that_is_away_is_named(failing: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"]._execute("DROP TABLE `pyspider-zk-failures`")
    ui.config["taskdb"]._execute("CREATE VIEW `pyspider-zk-failures` AS SELECT 1")
    assert ask(failing, "")["items"] == []  # it is no table: none was ever written
    ui.config["taskdb"]._execute("DROP VIEW `pyspider-zk-failures`")
    ui.config["taskdb"]._execute("CREATE TABLE `pyspider-zk-failures` (x)")
    assert "database does not answer" in ask(failing, "", 503)["detail"]
