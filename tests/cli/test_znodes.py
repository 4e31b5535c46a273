"""``backup``, ``restore`` and ``slots`` at a real ZooKeeper."""

import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.backup.file import read_backup, write_backup
from pyspider_zk.cluster.meta import ensure_cluster
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_reslotting import RedisReslotting
from pyspider_zk.zookeeper.strays import delete_below
from tests.cli.conftest import Run, ended, hosts
from tests.support.connected import connected
from tests.support.live_cluster import LiveCluster

TASK = {"project": "a", "taskid": "one", "url": "data:,one"}


@pytest.mark.zk
def test_a_running_cluster_is_backed_up_and_restored_elsewhere(
    run: Run, cluster: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "kept"
    other = f"{hosts(cluster)}-restored"

    kept = run("backup", file, "--zookeeper", hosts(cluster))
    restored = run("restore", file, "--zookeeper", other)
    shown = run("status", "--json", "--zookeeper", other)

    assert (kept.exit_code, restored.exit_code, shown.exit_code) == (0, 0, 0), restored.output
    assert f"znodes of {cluster.root}" in kept.stdout
    assert "epochs go on above" in restored.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.zk
@pytest.mark.parametrize("created", [-1e300, 1e300])
def test_a_backup_whose_time_is_none_is_restored(
    run: Run, cluster: Settings, tmp_path: Path, created: float
) -> None:
    file, odd = tmp_path / "kept", tmp_path / "odd"
    run("backup", file, "--zookeeper", hosts(cluster))
    write_backup(odd, replace(read_backup(file), created=created))

    restored = run("restore", odd, "--zookeeper", f"{hosts(cluster)}-restored")

    assert restored.exit_code == 0, restored.output
    assert "as they were at unreadable, are restored" in restored.stdout


@pytest.mark.zk
def test_a_running_cluster_is_not_replaced(run: Run, cluster: Settings, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    run("backup", file, "--zookeeper", hosts(cluster))

    refused = run("restore", file, "--zookeeper", hosts(cluster))
    running = run("restore", file, "--replace", "--zookeeper", hosts(cluster))

    assert (refused.exit_code, running.exit_code) == (2, 2)
    assert "there is a cluster at" in refused.output
    assert "2 processes run at" in running.output


def test_a_file_that_is_no_backup_is_refused_before_anything_is_asked(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "odd"
    file.write_text("{}\n")
    result = ended(run("restore", file, "--zookeeper", "127.0.0.1:1"), 2)
    assert "odd is no valid backup" in result.output


@pytest.mark.zk
def test_a_task_database_that_is_away_stops_it(
    run: Run,
    cluster: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "kept"
    run("backup", file, "--zookeeper", hosts(cluster))
    monkeypatch.setenv("TASKDB", "mysql+taskdb://u:hidden@127.0.0.1:1/taskdb")

    result = run("restore", file, "--zookeeper", f"{hosts(cluster)}-restored")

    assert result.exit_code == 3
    assert "taskdb at 127.0.0.1 cannot be read" in result.output
    assert "hidden" not in result.output


@pytest.mark.zk
@pytest.mark.redis
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


@pytest.mark.zk
@pytest.mark.redis
def test_without_the_message_queue_nothing_is_changed(run: Run, cluster_settings: Settings) -> None:
    result = ended(run("slots", 7, "--zookeeper", hosts(cluster_settings)), 2)
    assert "message queue: name that of the cluster" in result.output


@pytest.mark.zk
@pytest.mark.redis
def test_a_running_cluster_is_left_alone(run: Run, cluster: Settings, redis_url: str) -> None:
    result = ended(run("slots", 7, "--zookeeper", hosts(cluster), "--message-queue", redis_url), 2)
    assert "processes run at" in result.output


@pytest.fixture
def half_changed(
    run: Run,
    cluster_settings: Settings,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Interrupt a change to 7 slots, with a message on its way; return a backup from before it."""
    file = tmp_path / "kept"
    where = ("--zookeeper", hosts(cluster_settings))
    slots = cluster_settings.slots
    with connected(cluster_settings) as connection:
        ensure_cluster(connection, Tree(cluster_settings.root), Meta(slots))
    ended(run("backup", file, *where))
    with closing(connect(redis_url, 0, slots)) as queues:
        queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot_of("a", slots), TASK)])

    def interrupted(*_: object) -> None:
        raise ClusterError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(RedisReslotting, "move_messages", interrupted)
        ended(run("slots", 7, *where, "--message-queue", redis_url), 1)
    return file


def check_changed(run: Run, settings: Settings, redis_url: str) -> None:
    """Check that the change goes on to its end, and loses nothing."""
    ended(run("slots", 7, "--zookeeper", hosts(settings), "--message-queue", redis_url))
    with closing(connect(redis_url, 0, 7)) as queues:
        queues.slot_queues.take(range(7))
        (message,) = queues.slot_queues.read(QueueKind.NEWTASK, 9)
        assert (message.slot, message.body) == (slot_of("a", 7), TASK)


@pytest.mark.zk
@pytest.mark.redis
def test_nothing_is_restored_over_a_change_that_can_go_on(
    run: Run, cluster_settings: Settings, redis_url: str, half_changed: Path
) -> None:
    where = ("--zookeeper", hosts(cluster_settings), "--message-queue", redis_url)

    refused = ended(run("restore", half_changed, "--replace", *where), 2)

    assert "complete it first, with `pyspider-zk slots 7`" in refused.output
    with connected(cluster_settings) as connection:
        found, _ = connection.get(Tree(cluster_settings.root).meta)
    assert Meta.decode(found).protocol == CLOSED
    check_changed(run, cluster_settings, redis_url)


@pytest.mark.zk
@pytest.mark.redis
@pytest.mark.parametrize("lost", ["meta", "assignment"])
def test_a_change_that_needs_what_is_lost_goes_on_after_the_restore(
    run: Run, cluster_settings: Settings, redis_url: str, half_changed: Path, lost: str
) -> None:
    where = ("--zookeeper", hosts(cluster_settings), "--message-queue", redis_url)
    tree = Tree(cluster_settings.root)
    with connected(cluster_settings) as connection:
        delete_below(connection, [tree.root] if lost == "meta" else [tree.assignment])
        connection.delete(tree.assignment)

    restored = ended(run("restore", half_changed, "--replace", *where))

    assert "complete it before any process starts, with `pyspider-zk slots 7`" in restored.output
    check_changed(run, cluster_settings, redis_url)
