"""Fetchers, processors and result workers are killed while a crawl goes on: nothing is lost."""

import os
import signal
from collections.abc import Sequence

import pytest

from pyspider_zk.cluster.records import CONSUMING
from tests.integration.conftest import Crawl
from tests.support.processes import STOCK_PROGRAM

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(4)]


@pytest.mark.parametrize(
    "kinds", [[kind.value] for kind in CONSUMING] + [[kind.value for kind in CONSUMING]]
)
def test_what_killed_workers_had_is_done_by_others(crawl: Crawl, kinds: Sequence[str]) -> None:
    crawl.scheduler()
    workers = {kind.value: crawl.start(kind.value) for kind in CONSUMING}
    crawl.settled()
    crawl.run_projects(NAMES, rate=100)
    for _ in range(3):
        crawl.wait_for(40)
        for kind in kinds:
            os.kill(workers[kind].pid, signal.SIGKILL)
        for kind in kinds:
            workers[kind] = crawl.start(kind)
    crawl.wait_for(40)
    crawl.end()


def test_stock_workers_and_ours_take_from_the_same_queues(crawl: Crawl) -> None:
    crawl.scheduler()
    ours = [crawl.start(kind.value) for kind in CONSUMING]
    for command in ("fetcher", "processor", "result_worker"):
        crawl.start(command, program=STOCK_PROGRAM)
    crawl.settled(len(ours))
    crawl.run_projects(NAMES, rate=100)
    crawl.wait_for(100)
    for each in ours:
        each.send_signal(signal.SIGTERM)
    assert [each.wait() for each in ours] == [0, 0, 0]
    crawl.wait_for(50)  # by pyspider's own
    for kind in CONSUMING:
        crawl.start(kind.value)
    crawl.wait_for(50)
    crawl.end()
