"""The command that tells what fails, at a real cluster."""

import json

import pytest

from tests.cli.conftest import Run, ended, hosts
from tests.support.failing_tasks import store_failures
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk


def test_failures_are_told_by_kind_and_by_task(run: Run, live: LiveCluster) -> None:
    def ask(*arguments: object) -> str:
        return str(ended(run("--zookeeper", hosts(live.settings), *arguments)).stdout)

    assert ask("failures") == "nothing fails\n"
    store_failures(live.database("task"), "a", "KeyError: 'title'", "one", "two")
    store_failures(live.database("task"), "b", "HTTP 404: Not Found", "three")

    _, first, second = ask("failures").splitlines()
    assert first.split()[:3] == ["2", "2", "1"]
    assert first.rstrip().endswith("page      KeyError: 'title'")
    assert second.rstrip().endswith("HTTP 404: Not Found")
    _, only = ask("failures", "--tasks", "--project", "b").splitlines()
    assert only.split()[:2] == ["b", "three"]
    found = json.loads(ask("failures", "--kind", "KeyError: 'title'", "--tasks", "--json"))
    assert [each["taskid"] for each in found] == ["two", "one"]

    assert "refetch done: 1 of 1 project" in ask("refetch", "a", "--kind", "KeyError: 'title'")
    assert "KeyError" not in ask("failures")
