"""The commands that show tasks, at a real cluster."""

import json

import pytest

from tests.cli.conftest import Run, ended, hosts
from tests.support.failing_tasks import store_failures
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk


def test_tasks_are_found_by_url_and_state(run: Run, live: LiveCluster) -> None:
    def ask(*arguments: object) -> str:
        return str(ended(run("--zookeeper", hosts(live.settings), "tasks", *arguments)).stdout)

    assert ask() == "no task matches\n"
    store_failures(live.database("task"), "a", "KeyError: 'title'", "one", "two")
    store_failures(live.database("task"), "b", "HTTP 404: Not Found", "one")
    _, first, second = ask("/ONE").splitlines()
    assert first.split()[:3] == ["a", "one", "FAILED"]
    assert second.rstrip().endswith("http://site.example/one")
    found = json.loads(ask("--project", "a", "--state", "failed", "--limit", "1", "--json"))
    assert [each["taskid"] for each in found] == ["one"]
    assert ask("--state", "SUCCESS") == "no task matches\n"


def test_a_task_is_shown_with_its_log(run: Run, live: LiveCluster) -> None:
    def ask(*arguments: object, code: int = 0) -> str:
        return str(ended(run("--zookeeper", hosts(live.settings), "task", *arguments), code).output)

    store_failures(live.database("task"), "a", "KeyError: 'title'", "one")
    live.database("result").save("a", "one", "u", {"title": "x"})
    lines = ask("a", "one").splitlines()
    assert "url           http://site.example/one" in lines
    assert "state         FAILED" in lines
    assert "error         KeyError: 'title'" in lines
    assert lines[-2:] == ["", "Traceback of one"]
    found = json.loads(ask("a", "one", "--json"))
    assert (found["callback"], found["logs"]) == ("page", "Traceback of one")
    assert json.loads(found["documents"]["result"]) == {"title": "x"}
    assert "project 'a' has no task 'two'" in ask("a", "two", code=2)
