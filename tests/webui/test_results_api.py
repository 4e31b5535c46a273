"""What the API tells of results, of a real web UI at a real cluster."""

import json
from typing import Any
from weakref import ref

import pytest

from pyspider_zk.webui.instance import ClusterWebUI

pytestmark = pytest.mark.zk


def ask(client: Any, code: int = 200, **query: Any) -> Any:
    answer = client.get("/api/v1/results", query_string={"project": "p", **query})
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_a_project_without_results_has_none(client: Any) -> None:
    assert ask(client) == {"items": [], "total": 0, "offset": 0}


def test_results_are_paged_the_latest_first(client: Any, ui: ClusterWebUI) -> None:
    for number in range(3):
        ui.config["resultdb"].save("p", f"t{number}", "http://u", {"title": number, "a": [1]})
    found = ask(client, limit=2)
    assert (found["total"], [each["taskid"] for each in found["items"]]) == (3, ["t2", "t1"])
    assert found["items"][0]["fields"] == {"title": "2", "a": "[\n  1\n]"}
    assert [each["taskid"] for each in ask(client, offset=2)["items"]] == ["t0"]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("text", {"": '"text"'}),
        (None, {"": "null"}),
        ({"x" * 300: "y" * 300}, {"x" * 200: f'"{"y" * 199}\n... it is longer'}),
    ],
)
def test_any_result_is_told_as_much_as_fits(
    client: Any, ui: ClusterWebUI, result: Any, told: dict[str, str]
) -> None:
    ui.config["resultdb"].save("p", "a", "http://u", result)
    assert ask(client)["items"][0]["fields"] == told


def test_of_many_fields_some_are_told(client: Any, ui: ClusterWebUI) -> None:
    ui.config["resultdb"].save("p", "a", "http://u", dict.fromkeys(map(str, range(1000)), 1))
    assert len(ask(client)["items"][0]["fields"]) == 50


class WatchedRow(dict[str, Any]):
    """A row that is known to be in memory."""


def test_one_whole_result_at_a_time_is_in_memory(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    resultdb, rows, held = ui.config["resultdb"], list[ref[WatchedRow]](), []
    for number in range(5):
        resultdb.save("p", f"t{number}", "http://u", {})

    def get(*asked: Any) -> WatchedRow | None:
        held.append(sum(each() is not None for each in rows))
        found = type(resultdb).get(resultdb, *asked)
        row = found and WatchedRow(found)
        rows.extend([ref(row)] if row else [])
        return row

    monkeypatch.setattr(resultdb, "get", get)
    assert len(ask(client)["items"]) == len(rows) == 5
    assert max(held) <= 1


@pytest.mark.parametrize("junk", ["", "{", b"\xff", 7, "[" * 100_000])
def test_junk_in_a_result_hides_no_other(client: Any, ui: ClusterWebUI, junk: Any) -> None:
    resultdb = ui.config["resultdb"]
    resultdb.save("p", "bad", "http://u", {})
    resultdb.save("p", "good", "http://u", {"title": "t"})
    resultdb._execute("UPDATE `resultdb_p` SET result = ? WHERE taskid = 'bad'", [junk])
    good, bad = ask(client)["items"]
    assert good["fields"] == {"title": '"t"'}
    assert (bad["taskid"], list(bad["fields"])) == ("bad", [""])


def test_a_database_that_does_not_answer_is_told(
    client: Any, ui: ClusterWebUI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui.config["resultdb"], "get", lambda *_: 1 / 0)
    assert "does not answer" in ask(client, 503)["detail"]
