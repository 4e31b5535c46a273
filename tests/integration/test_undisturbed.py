"""A crawl goes on when a scheduler is restarted, a Redis fails over, and slots move to others."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspider_zk.cluster.cluster_settings import with_values
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer
from pyspider_zk.projects.slots import slot_of
from tests.integration.conftest import Crawl
from tests.support.chain_site import chain_script
from tests.support.connected import connected
from tests.support.replicated_redis import replicated_redis

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(6)]
DELAY = 600.0  # seconds; much longer than any start may take


def numbers(crawl: Crawl) -> list[int | None]:
    rows = crawl.settled().assignment.slots
    return [row.owner.number if row.owner else None for row in rows]


@pytest.fixture
def orders(cluster_settings: Settings) -> Iterator[Orders]:
    with connected(cluster_settings) as connection:
        yield Orders(connection, Tree(cluster_settings.root), "me")


def change(orders: Orders, **values: float) -> None:
    orders.change(EventKind.SETTINGS, "set", lambda found: with_values(found, values))


def test_a_restart_within_the_delay_moves_no_slot_and_fetches_nothing_twice(
    crawl: Crawl, orders: Orders
) -> None:
    first, _ = crawl.scheduler(), crawl.scheduler()
    change(orders, restart_delay=DELAY)
    for component in ("fetcher", "processor", "result-worker"):
        crawl.start(component)
    before = numbers(crawl)
    crawl.run_projects(NAMES)

    crawl.wait_for(100)
    first.terminate()
    assert first.wait() == 0
    crawl.scheduler()
    after = numbers(crawl)
    crawl.wait_for(100)
    crawl.end()

    assert after == before
    assert crawl.fetched_once()


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


BUSY = "busy"
ASLEEP = 12
BUSY_RATE = 40.0  # tasks per second; far more than all the others weigh together


def sleeping(slots: int) -> dict[int, str]:
    """Return projects that sleep, each in a slot of its own."""
    names = (f"asleep{number}" for number in range(slots))
    found = {slot_of(name, slots): name for name in names}
    found.pop(slot_of(BUSY, slots), None)
    return dict(list(found.items())[:ASLEEP])


def test_the_neighbours_of_a_busy_slot_move_away(
    crawl: Crawl,
    cluster_settings: Settings,
    orders: Orders,
    eventually: Callable[..., None],
) -> None:
    slots = cluster_settings.slots
    busy, asleep = slot_of(BUSY, slots), sleeping(slots)
    crawl.scheduler(), crawl.scheduler()
    change(orders, weigh_every=1)
    for component in ("fetcher", "processor", "result-worker"):
        crawl.start(component)
    row = {"status": "RUNNING", "group": "", "comments": "", "rate": 1, "burst": 1}
    for name in asleep.values():
        crawl.database("project").insert(
            name, {**row, "script": chain_script(crawl.site.url, name)}
        )
    crawl.run_projects([BUSY], rate=BUSY_RATE)

    def neighbours() -> int:
        rows = crawl.directory.read().assignment.slots
        return sum(rows[slot].owner == rows[busy].owner for slot in asleep)

    eventually(lambda: 4 <= neighbours() <= 8, "projects shared by their number")
    before = crawl.settled().assignment.slots[busy]
    eventually(lambda: neighbours() <= 1, "the neighbours elsewhere", within=180)
    after = crawl.directory.read().assignment.slots[busy]
    crawl.end()

    assert after == before
    assert crawl.fetched_once()
