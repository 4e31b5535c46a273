"""A cluster goes on from a backup: what was asked for is done once, and its slots can be taken."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.backup.znodes import read_cluster, write_cluster
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.model import Job, JobState
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.projects.selection import Selection
from pyspider_zk.tasks.highest_seal import highest_seal
from pyspider_zk.zookeeper.connection import Connection
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.zk

Eventually = Callable[..., Any]


@pytest.fixture
def live(tmp_path: Path, cluster_settings: Settings) -> LiveCluster:
    """Give a cluster of two projects that are stopped, and no scheduler yet."""
    cluster = LiveCluster(tmp_path, cluster_settings)
    for name in ("b", "c"):
        cluster.project(name, "STOP")
    return cluster


def run_until(live: LiveCluster, eventually: Eventually, holds: Callable[[], Any]) -> None:
    """Run a scheduler until it has all slots and something holds."""
    with live.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == live.settings.slots)
        eventually(holds)


def start(live: LiveCluster, connection: Connection, project: str) -> Callable[[], bool]:
    """Ask for a project to be started; return whether that was done."""
    tree = Tree(live.settings.root)
    jobs, events = JobQueue(connection, tree.jobs), EventLog(connection, tree)
    reader = Directory(live.settings, connection)
    service = BatchService(live.database("project"), jobs, events, reader.read, live.settings.slots)
    service.submit("start", Selection(names=(project,)), batch=f"start-{project}")

    def is_done() -> bool:
        found = jobs.batch(f"start-{project}")
        return found is not None and found.ended and not found.record.to_close

    return is_done


def claims(live: LiveCluster, connection: Connection) -> Counter[str]:
    """Count how often each batch was carried out."""
    jobs = JobQueue(connection, Tree(live.settings.root).jobs)
    return Counter({batch: job.claims for batch in jobs.batches() for job in done(jobs, batch)})


def done(jobs: JobQueue, batch: str) -> list[Job]:
    found = jobs.batch(batch)
    return list(found.jobs[JobState.DONE].values()) if found else []


def on_start(live: LiveCluster, project: str) -> Any:
    return live.database("task").get_task(project, "on_start")


def sealed(live: LiveCluster) -> int:
    return highest_seal(f"sqlite+taskdb:///{live.folder}/task.db", live.settings.root)


def test_jobs_go_on_and_nothing_is_done_twice(
    live: LiveCluster, connection: Connection, eventually: Eventually
) -> None:
    root = live.settings.root
    run_until(live, eventually, lambda: True)
    is_done = start(live, connection, "b")
    run_until(live, eventually, is_done)
    first = on_start(live, "b")
    is_next_done = start(live, connection, "c")
    backup = read_cluster(connection, root)

    write_cluster(connection, root, backup, replace=True, sealed=sealed(live))
    run_until(live, eventually, is_next_done)

    assert is_done()
    assert claims(live, connection) == {"start-b": 1, "start-c": 1}
    assert first is not None
    assert on_start(live, "b") == first
    assert on_start(live, "c") is not None


def test_an_old_backup_locks_nobody_out(
    live: LiveCluster, connection: Connection, eventually: Eventually
) -> None:
    root = live.settings.root
    run_until(live, eventually, lambda: True)
    backup, before = read_cluster(connection, root), sealed(live)
    for _ in range(2):
        run_until(live, eventually, lambda: True)
    highest = sealed(live)
    assert highest > before > 0

    write_cluster(connection, root, backup, replace=True, sealed=highest, clock=lambda: 0.0)
    run_until(live, eventually, lambda: True)

    assert sealed(live) == highest + 1


def test_below_the_seals_no_slot_can_be_taken(
    live: LiveCluster,
    connection: Connection,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So the test above would fail if a restore did not look at the seals."""
    tree = Tree(live.settings.root)
    run_until(live, eventually, lambda: True)
    backup = read_cluster(connection, tree.root)
    for _ in range(2):
        run_until(live, eventually, lambda: True)
    connection.delete(tree.assignment)

    write_cluster(connection, tree.root, backup, replace=True, clock=lambda: 0.0)

    with live.scheduler() as scheduler:
        eventually(lambda: "slots cannot be taken" in caplog.text)
        assert len(scheduler.fence.held) == 0
