"""Scripts that are saved and looked at over the API, of a real web UI at a real cluster."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.webui.api.scripts import MOST_LINES
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.users import Role, change_users
from tests.support.live_cluster import LiveCluster
from tests.webui.conftest import Eventually

pytestmark = pytest.mark.zk

OLD = "class Handler: pass"  # of the cluster's projects
ONE, TWO = "import a\nimport b\n", "import a\nimport c\n"


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster, tmp_path: Path) -> Iterator[Any]:
    """Give a client of a web UI with a user of each role, whose cluster has no scheduler."""
    with cluster.scheduler():
        pass
    for role in Role:
        change_users(tmp_path / "users.json", role, role.value, "password")
    settings = replace(cluster.settings, users=str(tmp_path / "users.json"))
    with ui.joined(settings, cluster.queues()):
        yield stock_app.test_client()


def put(client: Any, name: str, script: str, role: str = "admin", **more: str) -> Any:
    """Save a script as a user with a role; empty: nobody."""
    auth = (role, "password") if role else None
    return client.put(f"/api/v1/projects/{name}/script", json={"script": script, **more}, auth=auth)


def ask(client: Any, path: str, code: int = 200) -> Any:
    answer = client.get(f"/api/v1/projects/{path}")
    assert answer.status_code == code, answer.text
    return answer.get_json()


def digest(script: str) -> str:
    return md5(script.encode(), usedforsecurity=False).hexdigest()


def test_a_project_is_created_and_its_script_replaced_as_by_the_editor(
    client: Any, ui: ClusterWebUI, cluster: LiveCluster
) -> None:
    made = put(client, "made", ONE)
    told = {"md5": digest(ONE), "status": "TODO", "error": None}
    assert (made.status_code, made.get_json()) == (201, told)
    row = ui.config["projectdb"].get("made")
    limits = {"status": "TODO", "group": None, "rate": 1, "burst": 3}
    assert {key: row[key] for key in limits} == limits

    cluster.project("busy", status="RUNNING")
    assert put(client, "busy", TWO).get_json()["status"] == "CHECKING"
    assert ui.config["projectdb"].get("busy")["status"] == "CHECKING"
    found = ask(client, "busy/script")
    assert (found["script"], found["md5"]) == (TWO, digest(TWO))
    event = client.get("/api/v1/events").get_json()["items"][-1]
    assert (event["kind"], event["who"], event["data"]["projects"]) == ("script", "admin", ["busy"])
    assert "no scheduler could be told" in event["data"]["result"]


HOSTILE = "http://a/' + __import__('os').system('id') + '"


@pytest.mark.parametrize(
    ("start", "crawled"),
    [
        ("http://a.example/?b=c&d='e'", "http://a.example/?b=c&d='e'"),
        ("https://a/ https://b/", "https://a/ https://b/"),
        (HOSTILE, HOSTILE),
        ("http://a/\\'\n#__DATE__", "http://a/\\'\n#__DATE__"),
        ("", "__START_URL__"),
    ],
)
def test_the_start_url_of_a_new_script_is_a_text_in_it(
    client: Any, start: str, crawled: str
) -> None:
    answer = client.get("/api/v1/new-script", query_string={"project": "new", "start": start})
    script = answer.get_json()["script"]
    calls = [each for each in ast.walk(ast.parse(script)) if isinstance(each, ast.Call)]
    first = next(each.args[0] for each in calls if ast.unparse(each.func) == "self.crawl")
    assert (isinstance(first, ast.Constant), ast.literal_eval(first)) == (True, crawled)
    assert "# Project: new\n" in script


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"project": "p", "start": "javascript:alert(1)"}, "http:// or https://"),
        ({"project": "p", "start": "file:///etc/passwd"}, "http:// or https://"),
        ({"project": "a\nimport os"}, "control characters"),
        ({"project": "x" * 65}, "64 characters at most"),
        ({"start": "http://a/"}, "Missing"),
    ],
)
def test_a_new_script_is_of_a_project_and_begins_with_a_url(
    client: Any, query: dict[str, str], told: str
) -> None:
    answer = client.get("/api/v1/new-script", query_string=query)
    assert (answer.status_code, told in answer.text) == (422, True), answer.text


def test_another_script_than_the_expected_one_is_not_replaced(client: Any) -> None:
    assert put(client, "p", ONE, **{"if": digest(ONE)}).status_code == 409
    assert put(client, "p", ONE, **{"if": ""}).status_code == 201
    assert put(client, "p", ONE, **{"if": ""}).status_code == 200  # the first answer was lost
    for expected in ("", digest(TWO)):
        assert put(client, "p", TWO, **{"if": expected}).status_code == 409
    assert ask(client, "p/script")["script"] == ONE
    assert put(client, "p", TWO, **{"if": digest(ONE)}).status_code == 200


def test_what_happens_meanwhile_is_no_fault_of_the_database(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    projectdb = ui.config["projectdb"]
    insert = projectdb.insert

    def outrun(name: str, row: dict[str, Any]) -> None:
        insert(name, {**row, "script": ONE})
        insert(name, row)

    monkeypatch.setattr(projectdb, "insert", outrun)
    answer = put(client, "p", TWO)
    assert (answer.status_code, ask(client, "p/script")["script"]) == (409, ONE)
    assert "just been created" in answer.get_json()["detail"]
    monkeypatch.setattr(projectdb, "update", lambda *_: 0)
    answer = put(client, "p", TWO)
    assert (answer.status_code, ask(client, "p/script")["script"]) == (409, ONE)


def test_a_project_whose_creation_got_no_reply_is_no_conflict_with_itself(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = ui.config["projectdb"].original
    insert = stored.insert
    with monkeypatch.context() as broken:
        broken.setattr(stored, "insert", lambda *args: (insert(*args), 1 / 0))
        assert put(client, "p", ONE, **{"if": ""}).status_code == 503
    assert ask(client, "p/script")["script"] == ONE

    assert put(client, "p", ONE, **{"if": ""}).status_code == 200
    (version,) = ask(client, "p/versions")["items"]
    assert ask(client, f"p/versions/{version['saved_at']}")["script"] == ONE
    event = client.get("/api/v1/events").get_json()["items"][-1]
    assert (event["kind"], event["who"], event["data"]["projects"]) == ("script", "admin", ["p"])


def test_a_name_that_the_database_has_no_tables_for_is_refused(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui.config["projectdb"], "verify_project_name", lambda _: False)
    assert "too long for the database" in put(client, "p", ONE).get_json()["detail"]
    ask(client, "p", 404)


def test_scripts_that_are_too_long_are_not_compared(client: Any) -> None:
    for line in ("a", "b"):
        put(client, "p", f"{line}\n" * (MOST_LINES + 1))
    new = ask(client, "p/versions")["items"][0]
    assert "are not compared" in ask(client, f"p/versions/{new['saved_at']}")["diff"]


def test_a_script_that_does_not_compile_is_saved_and_the_fault_told(client: Any) -> None:
    for script, error in (("x = 1\nx = = 2", "line 2: invalid syntax"), ("return", "line 1: ")):
        assert error in put(client, "p", script).get_json()["error"]
        assert ask(client, "p/script")["script"] == script
    assert put(client, "p", "(" * 1000).get_json()["error"]


@pytest.mark.parametrize("name", ["a b", "a-b", "x" * 65, "%00"])
def test_a_name_that_no_project_may_have_is_refused(client: Any, name: str) -> None:
    assert put(client, name, ONE).status_code in (400, 422)
    assert client.get("/api/v1/projects").get_json()["total"] == 0


@pytest.mark.parametrize("script", ["\0", "\ud800", None])
def test_what_no_database_can_hold_is_refused(client: Any, script: Any) -> None:
    assert put(client, "p", script).status_code == 422
    ask(client, "p", 404)


def test_only_admins_save_scripts_where_there_are_roles(client: Any, cluster: LiveCluster) -> None:
    cluster.project("locked", status="STOP", group="lock")
    for role in ("viewer", "operator"):
        assert put(client, "locked", ONE, role).status_code == 403
        page = client.get("/cluster/project", auth=(role, "password")).text
        assert "data-edits-nothing" in page
    assert put(client, "/locked", ONE, "operator").status_code >= 300  # //
    assert put(client, "locked", ONE, "").status_code == 401
    assert ask(client, "locked/script")["script"] == OLD
    assert put(client, "locked", ONE).status_code == 200
    page = client.get("/cluster/project", auth=("admin", "password")).text
    assert "data-edits-nothing" not in page


def test_versions_are_compared_and_brought_back(client: Any, cluster: LiveCluster) -> None:
    cluster.project("p", status="STOP")
    for script in (ONE, TWO):
        put(client, "p", script)
    new, one, old = ask(client, "p/versions")["items"]
    assert [each["who"] for each in (new, one, old)] == ["admin", "admin", ""]

    found = ask(client, f"p/versions/{new['saved_at']}")
    assert (found["script"], found["against"]) == (TWO, one["saved_at"])
    assert found["diff"].split("\n")[2:] == [
        *("@@ -1,3 +1,3 @@", " import a", "-import b", "+import c", " "),
    ]
    against = ask(client, f"p/versions/{new['saved_at']}?against={old['saved_at']}")
    assert f"-{OLD}" in against["diff"]
    first = ask(client, f"p/versions/{old['saved_at']}")
    assert (first["against"], first["script"]) == (None, OLD)

    put(client, "p", first["script"], **{"if": digest(TWO)})
    assert ask(client, "p/script")["script"] == OLD
    assert len(ask(client, "p/versions")["items"]) == 4


def test_what_is_not_there_is_not_found(client: Any) -> None:
    put(client, "p", ONE)
    (version,) = ask(client, "p/versions")["items"]
    for path in ("nobody/script", "nobody/versions", f"nobody/versions/{version['saved_at']}"):
        ask(client, path, 404)
    for path in ("1.5", "soon", f"{'9' * 400}.0", f"{version['saved_at']}?against=1.5"):
        ask(client, f"p/versions/{path}", 404)
    ask(client, f"p/versions/{version['saved_at']}?against=nan", 422)


def test_versions_that_cannot_be_read_are_told(client: Any, ui: ClusterWebUI) -> None:
    ui.config["projectdb"].original._execute('CREATE TABLE "pyspider-zk-scripts" (x)')
    assert put(client, "p", ONE).status_code == 201
    assert "cannot be used" in ask(client, "p/versions", 503)["detail"]


def test_a_scheduler_is_told_and_versions_end_with_their_project(
    client: Any, cluster: LiveCluster, eventually: Eventually
) -> None:
    admin = {"auth": ("admin", "password")}
    with cluster.scheduler():
        eventually(lambda: client.get("/api/v1/members").get_json()["items"])
        put(client, "p", ONE)
        assert client.get("/api/v1/events").get_json()["items"][-1]["data"]["result"] == "done"
        asked = {"operation": "delete", "names": ["p"], "arguments": {"wait": False}}
        batch = client.post("/api/v1/batches", json=asked, **admin).headers["Location"]
        eventually(lambda: client.get(batch).get_json()["state"] == "done")
    put(client, "p", TWO)
    assert len(ask(client, "p/versions")["items"]) == 1
