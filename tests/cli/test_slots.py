"""``slots`` changes the number of slots of a real cluster that is stopped."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from tests.cli.conftest import Run, hosts
from tests.support.live_cluster import LiveCluster

pytestmark = [pytest.mark.zk, pytest.mark.redis]

TASK = {"project": "a", "taskid": "one", "url": "data:,one"}


def test_a_cluster_goes_on_with_another_number(
    run: Run,
    cluster_settings: Settings,
    redis_url: str,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    live = LiveCluster(tmp_path, cluster_settings, redis_url)
    live.project("a")
    run_until_it_owns(live, eventually, lambda: True)
    with closing(live.queues()) as queues:
        slot = slot_of("a", cluster_settings.slots)
        queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, TASK)])
    where = ("--zookeeper", hosts(cluster_settings), "--message-queue", redis_url)
    taskdb = f"sqlite+taskdb:///{tmp_path}/task.db"

    result = run("slots", 7, *where, "--taskdb", taskdb)

    assert result.exit_code == 0, result.output
    assert "has 7 slots in place of 256: set slots to 7" in result.stdout
    live.settings = replace(cluster_settings, slots=7)
    tasks = live.database("task")
    run_until_it_owns(live, eventually, lambda: tasks.get_task("a", "one"))


def run_until_it_owns(
    live: LiveCluster, eventually: Callable[..., None], holds: Callable[[], object]
) -> None:
    with live.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == live.settings.slots)
        eventually(holds)


def test_without_the_message_queue_nothing_is_changed(run: Run, cluster_settings: Settings) -> None:
    result = run("slots", 7, "--zookeeper", hosts(cluster_settings))
    assert result.exit_code == 2
    assert "message queue: name that of the cluster" in result.output


def test_a_running_cluster_is_left_alone(run: Run, cluster: Settings, redis_url: str) -> None:
    result = run("slots", 7, "--zookeeper", hosts(cluster), "--message-queue", redis_url)
    assert result.exit_code == 2
    assert "processes run at" in result.output
