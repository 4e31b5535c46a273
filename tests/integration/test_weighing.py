"""One project crawls and many sleep: those move away from it, and its crawl is not disturbed."""

from collections.abc import Callable

import pytest

from pyspider_zk.cluster.cluster_settings import with_values
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import SettingsStore
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.projects.slots import slot_of
from tests.integration.conftest import Crawl
from tests.support.chain_site import chain_script
from tests.support.connected import connected

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

BUSY = "busy"
ASLEEP = 12
RATE = 40.0  # tasks per second; far more than all the others weigh together


def sleeping(slots: int) -> dict[int, str]:
    """Return projects that sleep, each in a slot of its own."""
    names = (f"asleep{number}" for number in range(slots))
    found = {slot_of(name, slots): name for name in names}
    found.pop(slot_of(BUSY, slots), None)
    return dict(list(found.items())[:ASLEEP])


@pytest.fixture
def looks_every_second(cluster_settings: Settings) -> Callable[[], None]:
    def order() -> None:
        with connected(cluster_settings) as connection:
            store = SettingsStore(connection, Tree(cluster_settings.root))
            store.change(
                lambda old: with_values(old, {"weigh_every": 1}), EventKind.SETTINGS, "", "me"
            )

    return order


def test_the_neighbours_of_a_busy_slot_move_away(
    crawl: Crawl,
    cluster_settings: Settings,
    looks_every_second: Callable[[], None],
    eventually: Callable[..., None],
) -> None:
    slots = cluster_settings.slots
    busy, asleep = slot_of(BUSY, slots), sleeping(slots)
    crawl.scheduler(), crawl.scheduler()
    looks_every_second()
    for component in ("fetcher", "processor", "result-worker"):
        crawl.start(component)
    row = {"status": "RUNNING", "group": "", "comments": "", "rate": 1, "burst": 1}
    for name in asleep.values():
        crawl.database("project").insert(
            name, {**row, "script": chain_script(crawl.site.url, name)}
        )
    crawl.run_projects([BUSY], rate=RATE)

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
