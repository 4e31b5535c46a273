"""Every error that ZooKeeper may answer, while a scheduler works at batches: they get done."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError, NotEmptyError, QuotaExceededError

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.jobs.runner import EMPTY
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.connection import Connection
from tests.support.live_cluster import LiveCluster, living
from tests.support.waiting import eventually
from tests.support.zk_faults import STEP, Refusal, Refusing, all_refusals

pytestmark = [pytest.mark.zk, pytest.mark.slow]

LOOPS = {"coordinator", "jobs", "finalizer"}
CALLS = ["get", "children", "create", "sync", "multi", STEP]


class Requests:
    """Puts batches for a scheduler whose calls of ZooKeeper fail; its own do not."""

    def __init__(self, cluster: LiveCluster, connection: Connection) -> None:
        tree = Tree(cluster.settings.root)
        directory = Directory(cluster.settings, connection)
        self._service = BatchService(
            *(cluster.database("project"), JobQueue(connection, tree.jobs)),
            *(EventLog(connection, tree), directory.read, cluster.settings.slots),
        )
        (scheduler,) = cluster.running
        assert scheduler.fence.ownership
        self._refusing = Refusing(scheduler.fence.ownership.connection)
        self._threads = _loops()
        assert {each.name for each in self._threads} == LOOPS

    def is_done_after(self, call: str, refusal: Refusal) -> None:
        """Let a call fail while a batch is to be done; it is, and no thread has ended."""
        with self._refusing.refusing(call, refusal):
            batch = self._service.submit("stop", Selection(names=("b",)))["id"]
            eventually(lambda: self._refusing.count or self._state(batch) == "done", call)
        what = f"{call}: {refusal.__name__}: the end"  # an empty queue is looked at rarely
        eventually(lambda: self._state(batch) == "done", what, within=2 * EMPTY)
        assert self._threads == _loops()

    def _state(self, batch: str) -> str:
        return str(self._service.batch(batch)["state"])


def _loops() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name in LOOPS}


@pytest.fixture
def requests(tmp_path: Path, cluster_settings: Settings) -> Iterator[Requests]:
    """Give requests to a scheduler that owns everything."""
    connection = Connection(cluster_settings)
    connection.start()
    with living(LiveCluster(tmp_path, cluster_settings), eventually) as cluster:
        yield Requests(cluster, connection)
    connection.stop()


@pytest.mark.parametrize("refusal", [NoNodeError, NotEmptyError, QuotaExceededError])
def test_an_error_of_each_sort_delays_batches(
    requests: Requests, refusal: Refusal, caplog: pytest.LogCaptureFixture
) -> None:
    for call in CALLS:
        requests.is_done_after(call, refusal)

    assert "goes on after a failure" not in caplog.text
    assert "jobs wait" not in caplog.text


@pytest.mark.soak
@pytest.mark.parametrize("call", CALLS)
def test_errors_delay_batches_and_end_nothing(requests: Requests, call: str) -> None:
    for refusal in all_refusals():
        requests.is_done_after(call, refusal)
