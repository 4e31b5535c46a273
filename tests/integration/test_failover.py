"""The Redis of a crawl fails over: its master dies, and no process of the cluster ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer
from tests.integration.conftest import Crawl
from tests.support.replicated_redis import replicated_redis

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = [f"p{number}" for number in range(6)]


def test_a_crawl_goes_on_when_its_master_is_killed(
    tmp_path: Path,
    cluster_settings: Settings,
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    eventually: Callable[..., None],
) -> None:
    with (
        replicated_redis(tmp_path / "redis") as failing,
        Crawl(tmp_path, cluster_settings, failing.url, eventually) as crawl,
    ):
        processes = [crawl.scheduler(), crawl.scheduler()]
        for component in ("fetcher", "processor", "result-worker"):
            processes.append(crawl.start(component))
        crawl.settled()
        crawl.run_projects(NAMES)
        crawl.wait_for(70)

        failing.kill_master()
        failing.await_failover()
        crawl.wait_for(200)
        crawl.end()
        assert [each.poll() for each in processes] == [None] * len(processes)
