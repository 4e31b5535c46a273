"""What the API tells of the log, of a real web UI at a real cluster."""

import json
import math
from typing import Any

import pytest

from pyspider_zk.queues.log_lines import LogLine
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk

SLOW = LogLine(1000.5, "warning", "scheduler", "box", 7, "scheduler", "slow")
FAILED = LogLine(
    1001.5, "error", "processor", "box", 8, "processor", "failed", "news", "t1", "KeyError: 'title'"
)


def ask(client: Any, query: str = "", code: int = 200) -> Any:
    answer = client.get(f"/api/v1/logs{query}")
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_lines_are_told_the_latest_first_page_by_page(client: Any, cluster: LiveCluster) -> None:
    cluster.queues().log.append([SLOW, FAILED])
    page = ask(client, "?limit=1")
    (item,) = page["items"]
    assert item.pop("id") == page["next"]
    assert item == {
        "at": 1001.5,
        "level": "error",
        "component": "processor",
        "host": "box",
        "pid": 8,
        "logger": "processor",
        "message": "failed",
        "project": "news",
        "task": "t1",
        "traceback": "KeyError: 'title'",
    }
    rest = ask(client, f"?limit=2&cursor={page['next']}")
    assert ([each["message"] for each in rest["items"]], rest["next"]) == (["slow"], None)


@pytest.mark.parametrize(
    "query", ["level=error", "component=processor", "project=news", "q=KEYERROR", "q=fail&limit=9"]
)
def test_lines_are_filtered(client: Any, cluster: LiveCluster, query: str) -> None:
    cluster.queues().log.append([SLOW, FAILED])
    assert [each["message"] for each in ask(client, f"?{query}")["items"]] == ["failed"]


def test_a_time_that_is_none_is_told_as_null(client: Any, cluster: LiveCluster) -> None:
    cluster.queues().log.append([LogLine(math.nan, *list(vars(SLOW).values())[1:])])
    assert ask(client)["items"][0]["at"] is None


@pytest.mark.parametrize("query", ["level=info", "cursor=x", "cursor=-1-1", "limit=0", "q=", "x=1"])
def test_a_wrong_question_is_refused(client: Any, query: str) -> None:
    ask(client, f"?{query}", 422)
