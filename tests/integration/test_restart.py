"""A scheduler is restarted while a crawl goes on: no slot moves, and nothing is fetched twice."""

from collections.abc import Iterator

import pytest

from pyspider_zk.cluster.cluster_settings import with_values
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import SettingsStore
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from tests.integration.conftest import Crawl
from tests.support.connected import connected

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(6)]
DELAY = 600.0  # seconds; much longer than any start may take


def numbers(crawl: Crawl) -> list[int | None]:
    rows = crawl.settled().assignment.slots
    return [row.owner.number if row.owner else None for row in rows]


@pytest.fixture
def store(cluster_settings: Settings) -> Iterator[SettingsStore]:
    with connected(cluster_settings) as connection:
        yield SettingsStore(connection, Tree(cluster_settings.root))


def test_a_restart_within_the_delay_moves_no_slot_and_fetches_nothing_twice(
    crawl: Crawl, store: SettingsStore
) -> None:
    first, _ = crawl.scheduler(), crawl.scheduler()
    store.change(
        lambda found: with_values(found, {"restart_delay": DELAY}), EventKind.SETTINGS, "set", "me"
    )
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
