"""A member learns by watches that there are jobs for it: its next look would be an hour away."""

import pytest

from tests.jobs.test_runner import ALL, JobCluster, cluster, names, stopped
from tests.support.crew import expire
from tests.support.world import World

__all__ = ["cluster"]  # the fixture

pytestmark = pytest.mark.zk


@pytest.fixture(autouse=True)
def _no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("EMPTY", "IDLE", "REPORT"):
        monkeypatch.setattr(f"pyspider_zk.jobs.runner.{pause}", 3600.0)


def test_a_job_that_was_put_is_seen(cluster: JobCluster, world: World) -> None:
    """Several times, for a look that is just under way may see it without a watch."""
    names(world, 20)
    worker = cluster.worker()
    for batch in ("first", "second", "third", "fourth"):
        cluster.batch_service.submit("stop", ALL, batch=batch)
        worker.until(lambda batch=batch: cluster.batch_service.batch(batch)["state"] == "done")


def test_the_end_of_another_claimant_is_seen(cluster: JobCluster, world: World) -> None:
    made = names(world, 40)
    dead = cluster.worker(epoch=1)
    dead.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    dead.until(lambda: stopped(world))
    alive = cluster.worker(epoch=1)
    alive.until(lambda: alive.jobs.looks >= 2)  # at its start, and because it has slots
    assert stopped(world) < set(made)

    expire(dead.connection)

    alive.until(lambda: cluster.state() == "done")
