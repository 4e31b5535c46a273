"""A member learns by watches that there are jobs for it: its next look would be an hour away."""

import pytest

from tests.jobs.test_runner import ALL, Cluster, cluster, names, stopped
from tests.support.world import World

__all__ = ["cluster"]  # the fixture

pytestmark = pytest.mark.zk


@pytest.fixture(autouse=True)
def _no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("IDLE", "REPORT"):
        monkeypatch.setattr(f"pyspider_zk.jobs.runner.{pause}", 3600.0)


def test_a_job_that_was_put_is_seen(cluster: Cluster, world: World) -> None:
    made = names(world, 20)
    worker = cluster.worker()
    cluster.batch_service.submit("stop", ALL, batch="first")
    worker.until(lambda: stopped(world) == set(made))  # so it has looked, and looks no more

    cluster.batch_service.submit("start", ALL, batch="mine")

    worker.until(lambda: cluster.state() == "done")


def test_the_end_of_another_claimant_is_seen(cluster: Cluster, world: World) -> None:
    made = names(world, 40)
    dead = cluster.worker(epoch=1)
    dead.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    dead.until(lambda: stopped(world))
    alive = cluster.worker(epoch=1)
    alive.until(lambda: alive.jobs.looks)
    assert stopped(world) < set(made)

    dead.die()

    alive.until(lambda: cluster.state() == "done")
