"""Rows that were written past pyspider's editor fail no page and no answer."""

import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.projects.rows import shown
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.live_cluster import LiveCluster

COLUMNS = ("name", "group", "status", "script", "comments", "rate", "burst", "updatetime")
GOOD = ("good", "daily", "STOP", "class Handler: pass", "", 1, 3, 1.0)
ODD = {
    "no name": (None, *GOOD[1:]),
    "an empty name": ("", *GOOD[1:]),
    "a name of bytes": (b"by\xfftes", *GOOD[1:]),
    "a number for a name": (7, *GOOD[1:]),
    "nothing but a name": ("bare", *[None] * 7),
    "bytes": ("blob", *[b"\xff\x00"] * 7),
    "texts": ("text", "g", "STOP", "x = 1", "", "fast", "many", "yesterday"),
    "numbers": ("number", 1, 2, 3, 4, 1, 3, 1.0),
    "infinite": ("inf", "", "STOP", "", "", math.inf, -math.inf, math.inf),
}
PATHS = ("/debug/blob/get", "/debug/bare/get", "/debug/number/get", "/counter")
ANSWERS = ("projects", "projects?sort=-rate", "workload", "workload?status=STOP")


@pytest.fixture
def client(ui: ClusterWebUI, cluster: LiveCluster, tmp_path: Path) -> Iterator[Any]:
    with sqlite3.connect(tmp_path / "project.db") as database:
        marks = ", ".join("?" * len(COLUMNS))
        for row in (GOOD, *ODD.values()):
            database.execute(f"INSERT INTO projectdb VALUES ({marks})", row)  # noqa: S608
    with ui.joined(cluster.settings, cluster.queues()):
        yield stock_app.test_client()


@pytest.mark.zk
@pytest.mark.parametrize("path", PATHS)
def test_pages_of_pyspider_are_shown(client: Any, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.zk
@pytest.mark.parametrize("path", ANSWERS)
def test_answers_of_the_api_are_given(client: Any, path: str) -> None:
    answer = client.get(f"/api/v1/{path}")

    assert answer.status_code == 200, answer.text
    found = json.loads(answer.text, parse_constant=pytest.fail)
    assert "STOP" in path or {"good", "bare"} <= {each["name"] for each in found["items"]}


@pytest.mark.parametrize("name", ["no name", "an empty name"])
def test_a_row_without_a_name_is_no_project(name: str) -> None:
    assert shown(dict(zip(COLUMNS, ODD[name], strict=True))) is None


def test_columns_that_were_not_asked_for_stay_missing() -> None:
    assert shown({"name": "a", "rate": math.nan}) == {"name": "a", "rate": None}
