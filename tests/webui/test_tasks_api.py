"""What the API tells of a task, of a real web UI at a real cluster."""

import json
from typing import Any

import pytest

from pyspider_zk.webui.instance import ClusterWebUI

pytestmark = pytest.mark.zk

LOGS = "Traceback\nKeyError: no title"
TRACK = {
    "fetch": {"ok": True, "time": 0.5, "status_code": 200},
    "process": {"ok": False, "time": 0.25, "follows": 3, "exception": "no title", "logs": LOGS},
}
ROW = {
    "url": "http://u",
    "status": 1,
    "lastcrawltime": 1e9,
    "schedule": {"exetime": 2e9, "retried": 1, "retries": 5, "priority": 2},
    "fetch": {},
    "process": {"callback": "page"},
    "track": TRACK,
}


def ask(client: Any, taskid: str, code: int = 200) -> Any:
    answer = client.get("/api/v1/task", query_string={"project": "p", "id": taskid})
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_a_task_is_told_with_its_last_try_and_its_next(client: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"].insert("p", "a b/c", ROW)
    ui.config["resultdb"].save("p", "a b/c", "http://u", {"title": "<t>"})
    found = ask(client, "a b/c")
    documents = found.pop("documents")
    assert found == {
        "project": "p",
        "taskid": "a b/c",
        "url": "http://u",
        "state": "ACTIVE",
        "callback": "page",
        "crawled_at": 1e9,
        "due_at": 2e9,
        "priority": 2,
        "retried": 1,
        "retries": 5,
        "error": "KeyError: no title",
        "logs": LOGS,
        "ok": False,
        "status_code": 200,
        "fetch_time": 0.5,
        "process_time": 0.25,
        "follows": 3,
    }
    assert json.loads(documents["track"]) == TRACK
    assert json.loads(documents["result"]) == {"title": "<t>"}
    assert "fetch" not in documents


def test_a_task_that_was_never_tried_has_no_try(client: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"].insert("p", "new", {"url": "http://u", "status": 1, "schedule": {}})
    found = ask(client, "new")
    tried = ("ok", "status_code", "fetch_time", "crawled_at", "due_at", "retries")
    assert [found[name] for name in tried] == [None] * 6


def test_a_task_that_is_given_up_has_no_next_try(client: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"].insert("p", "lost", {**ROW, "status": 3})
    found = ask(client, "lost")
    assert (found["state"], found["due_at"]) == ("FAILED", None)


def test_a_number_that_a_script_took_for_an_id_is_found(client: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"].insert("p", 7, {"url": "http://u", "status": 2, "schedule": {}})
    ui.config["resultdb"].save("p", 7, "http://u", 0)
    found = ask(client, "7")
    assert (found["state"], found["documents"]["result"]) == ("SUCCESS", "0")


@pytest.mark.parametrize("junk", ["[]", '"text"', "7", '{"fetch": 1, "process": [1]}', "{"])
def test_junk_in_a_row_fails_no_answer(client: Any, ui: ClusterWebUI, junk: str) -> None:
    taskdb = ui.config["taskdb"]
    taskdb.insert("p", "odd", {"url": None, "status": 9})
    columns = ("schedule", "fetch", "process", "track")
    for column in columns:
        taskdb._execute(f"UPDATE `taskdb_p` SET {column} = ?", [junk])  # noqa: S608
    taskdb._execute("UPDATE `taskdb_p` SET lastcrawltime = 'yesterday'")
    if junk == "{":
        assert "cannot be read" in ask(client, "odd", 404)["detail"]
    else:
        assert ask(client, "odd")["state"] == "UNKNOWN"


@pytest.mark.parametrize("junk", [None, "", "{", b"\xff", 7, "[" * 980 + "]" * 980])
def test_junk_in_a_result_fails_no_answer(client: Any, ui: ClusterWebUI, junk: Any) -> None:
    ui.config["taskdb"].insert("p", "a", ROW)
    resultdb = ui.config["resultdb"]
    resultdb.save("p", "a", "http://u", {})
    resultdb._execute("UPDATE `resultdb_p` SET result = ?", [junk])
    assert "result" in ask(client, "a")["documents"]


def test_a_result_is_cut_wherever_it_becomes_too_long(client: Any, ui: ClusterWebUI) -> None:
    ui.config["taskdb"].insert("p", "a", ROW)
    for long in ("x" * 200_000, [[[[list(range(9_000))]]]], json.loads("[" * 400 + "]" * 400)):
        ui.config["resultdb"].save("p", "a", "http://u", long)
        told = ask(client, "a")["documents"]["result"]
        assert len(told) < 100_100
        assert told.endswith("it is longer")


def test_a_task_that_there_is_not_is_told(client: Any) -> None:
    assert "has no task 'nothing'" in ask(client, "nothing", 404)["detail"]


def test_a_database_that_does_not_answer_is_told(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui.config["taskdb"].insert("p", "a", ROW)
    monkeypatch.setattr(ui.config["resultdb"], "get", lambda *_: 1 / 0)
    assert "does not answer" in ask(client, "a", 503)["detail"]


def search(client: Any, code: int = 200, **query: Any) -> Any:
    answer = client.get("/api/v1/tasks", query_string=query)
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_tasks_are_searched_look_by_look(client: Any, ui: ClusterWebUI) -> None:
    taskdb = ui.config["taskdb"]
    for project in ("p", "q"):
        for name in ("one", "two"):
            taskdb.insert(project, name, {**ROW, "url": f"http://{project}/{name}"})
    taskdb.insert("q", "done", {**ROW, "url": "http://q/done", "status": 2})
    first = search(client, url="/ONE", limit=1)
    task = {"project": "p", "taskid": "one", "url": "http://p/one", "state": "ACTIVE"}
    assert first["items"] == [{**task, "crawled_at": 1e9}]
    assert (first["projects"], first["of"]) == (0, 2)
    second = search(client, url="/ONE", cursor=first["next"])
    assert [each["project"] for each in second["items"]] == ["q"]
    assert second["next"] is None
    assert (second["projects"], second["of"]) == (2, 2)
    found = search(client, project="q", state="SUCCESS", since=1e9)
    assert [each["taskid"] for each in found["items"]] == ["done"]
    assert (found["rows"], found["projects"], found["of"]) == (3, 1, 1)
    assert search(client, since=1e9 + 1)["items"] == []


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"state": "DONE"}, "state: Must be one of: ACTIVE, SUCCESS, FAILED, BAD."),
        ({"url": ""}, "url: has 1 to 1000 characters"),
        ({"url": "x" * 1001}, "url: has 1 to 1000 characters"),
        ({"since": "now"}, "since: Not a valid number."),
        ({"cursor": "row"}, "cursor: String does not match expected pattern."),
    ],
)
def test_a_search_with_a_slip_is_refused(client: Any, query: dict[str, Any], told: str) -> None:
    assert told in search(client, 422, **query)["detail"]
