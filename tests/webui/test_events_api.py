"""What the API tells of the archive of events, of a real web UI at a real cluster."""

import csv
import json
from contextlib import closing
from typing import Any

import pytest

from pyspider_zk.cluster.event_archive import EventArchive
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.webui.instance import ClusterWebUI
from tests.support.connected import connected
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk

AT = 1_790_000_000.25
EVENTS = [
    (1, Event("batch", "stop of 2 projects was asked for", AT, "ann", {"projects": ["news"]})),
    (2, Event("script", "save the script of news: done", AT, "bob")),
    (3, Event("joined", "member 0-a joined", AT + 1, "0-a")),
    (4, Event("drain", "=1+1", AT + 2, "ann@host")),
]


@pytest.fixture
def archived(client: Any, ui: ClusterWebUI) -> Any:
    """Give the client once there are events in the archive."""
    with closing(EventArchive(ui.config["projectdb"].original)) as archive:
        archive.append(EVENTS)
    return client


def ask(client: Any, code: int = 200, path: str = "", **query: Any) -> Any:
    answer = client.get(f"/api/v1/events/archive{path}", query_string=query)
    assert answer.status_code == code, answer.text
    return answer.text if path and code == 200 else json.loads(answer.text)


def sequences(client: Any, **query: Any) -> list[int]:
    return [each["sequence"] for each in ask(client, **query)["items"]]


def test_events_are_found_the_latest_first_page_by_page(archived: Any) -> None:
    page = ask(archived, limit=3)
    assert [each["sequence"] for each in page["items"]] == [4, 3, 2]
    assert page["missing"] == []
    assert ask(archived, limit=3, cursor=page["next"]) == {
        "items": [
            {
                "sequence": 1,
                "kind": "batch",
                "text": "stop of 2 projects was asked for",
                "at": AT,
                "who": "ann",
                "data": {"projects": ["news"]},
            }
        ],
        "missing": [],
        "next": None,
    }


@pytest.mark.parametrize("at", [1.7976931348623157e308, 5e-324, 0.0, -AT])
def test_a_page_ends_at_any_time_that_somebody_wrote(
    client: Any, ui: ClusterWebUI, at: float
) -> None:
    with closing(EventArchive(ui.config["projectdb"].original)) as archive:
        archive.append([(-(2**31), Event("", "", at)), (-1, Event("", "", at))])
    page = ask(client, limit=1)
    (rest,) = ask(client, limit=2, cursor=page["next"])["items"]
    assert (page["items"][0]["sequence"], rest["sequence"]) == (-1, -(2**31))


def test_events_are_filtered(archived: Any) -> None:
    assert sequences(archived, group="orders", who="Ann") == [4, 1]
    assert sequences(archived, q="NEWS") == [2, 1]
    assert sequences(archived, since=AT + 1, until=AT + 2, kind="joined") == [3]


@pytest.mark.parametrize(
    "query",
    [
        {"group": "all"},
        {"since": "nan"},
        {"who": ""},
        {"q": "\0"},
        {"cursor": "1 2"},
        {"text": "x"},
    ],
)
def test_what_is_no_filter_is_refused(archived: Any, query: dict[str, str]) -> None:
    assert list(ask(archived, 422, **query)["errors"]["query"]) == list(query)


def test_all_that_match_are_exported_but_no_formula(archived: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("pyspider_zk.webui.api.events.MOST_ITEMS", 1)  # of a page
    rows = list(csv.reader(ask(archived, path=".csv", who="ann", group="orders").splitlines()))
    assert rows == [
        ["time", "kind", "who", "text", "details"],
        ["2026-09-21 14:13:22.250+00:00", "drain", "ann@host", "'=1+1", ""],
        [
            *("2026-09-21 14:13:20.250+00:00", "batch", "ann", "stop of 2 projects was asked for"),
            '{"projects": ["news"]}',
        ],
    ]
    assert ask(archived, path=".csv", style="spreadsheet", who="nobody").startswith("\ufefftime,")


def test_without_an_archive_the_log_answers(
    client: Any, ui: ClusterWebUI, cluster: LiveCluster
) -> None:
    ui.config["projectdb"].original.path = str(cluster.folder)  # which is no file
    with connected(cluster.settings) as connection:
        log = EventLog(connection, Tree(cluster.settings.root))
        for _, event in EVENTS:
            log.append(event)

    page = ask(client, group="orders", who="ann", limit=1)
    rest = ask(client, group="orders", who="ann", limit=2, cursor=page["next"])
    assert [each["text"] for each in (*page["items"], *rest["items"])] == [
        "=1+1",
        "stop of 2 projects was asked for",
    ]
    assert rest["next"] is None
    assert "only the latest events: the archive cannot be used" in page["missing"][0]
    assert "cannot be used" in ask(client, 503, ".csv")["detail"]
