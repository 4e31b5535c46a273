"""What the API tells of the history, of a real web UI at a real cluster."""

import json
import time
from typing import Any

import pytest

from pyspider_zk.queues.history import field_at
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk


def ask(client: Any, query: str = "", code: int = 200) -> Any:
    answer = client.get(f"/api/v1/history{query}")
    assert answer.status_code == code, answer.text
    return json.loads(answer.text)


def test_the_steps_of_a_span_are_told_of_the_cluster_and_of_a_project(
    client: Any, cluster: LiveCluster
) -> None:
    now = time.time() - 300
    places = [field_at(now, "", "success"), field_at(now, "news", "retry")]
    cluster.queues().history.add("a", 1, {key: {field: 3} for key, field in places})
    day, week = ask(client), ask(client, "?project=news&span=week")
    assert (day["step"], sum(day["success"]), sum(day["retry"])) == (300, 3, 0)
    assert (week["step"], sum(week["success"]), sum(week["retry"])) == (3600, 0, 3)
    assert now <= day["at"] + 288 * day["step"] <= time.time() + 300
    assert {len(each) for each in week.values() if isinstance(each, list)} == {168}
    assert sum(ask(client, "?project=none&span=fortnight")["retry"]) == 0


@pytest.mark.parametrize("query", ["?span=year", "?project=%00", "?spam=day"])
def test_a_wrong_question_is_refused(client: Any, query: str) -> None:
    ask(client, query, 422)
