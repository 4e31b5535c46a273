"""What the leader tells of the whole cluster."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import FAMILIES, Source
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling import census
from tests.metrics.reading import Numbers, Series, family_of, numbers, undeclared, value
from tests.support.live_cluster import LiveCluster

pytestmark = [pytest.mark.zk, pytest.mark.redis]

Eventually = Callable[..., Any]


@pytest.fixture
def cluster(
    tmp_path: Path,
    cluster_settings: Settings,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> LiveCluster:
    monkeypatch.setattr(census, "INTERVAL", 0.05)
    settings = replace(cluster_settings, metrics="127.0.0.1:0", slots=8)
    return LiveCluster(tmp_path, settings, redis_url)


@pytest.fixture
def schedulers(cluster: LiveCluster) -> Iterator[list[ClusterScheduler]]:
    with ExitStack() as stack:
        yield [stack.enter_context(cluster.scheduler()) for _ in range(2)]


def of_cluster(scheduler: ClusterScheduler) -> Numbers:
    found = numbers(scheduler._monitoring.exposition.registry.collect())
    assert undeclared(found) == []
    return {
        series: number
        for series, number in found.items()
        if (family := family_of(series.name)) and family.source is Source.LEADER
    }


def leaders(schedulers: list[ClusterScheduler]) -> list[Numbers]:
    """Return what each scheduler tells of the cluster that tells anything."""
    return [found for found in map(of_cluster, schedulers) if found]


def whole(schedulers: list[ClusterScheduler]) -> Numbers:
    """Return what the leader tells, once it knows all members and no slot moves."""
    found = leaders(schedulers)
    if len(found) != 1:
        return {}
    members = found[0].get(Series(families.MEMBERS.full_name, frozenset()))
    served = found[0].get(Series(families.SLOTS.full_name, frozenset({("state", "served")})))
    return found[0] if (members, served) == (2, 8) else {}


def test_one_scheduler_alone_tells_everything_of_the_cluster(
    schedulers: list[ClusterScheduler], eventually: Eventually
) -> None:
    found = eventually(lambda: whole(schedulers))
    wanted = {each.name for each in FAMILIES if each.source is Source.LEADER}
    assert {family.name for series in found if (family := family_of(series.name))} == wanted
    assert value(found, families.CLUSTER_COMPONENTS, component="fetcher") == 0
    assert value(found, families.RAISED, alert="no-component") == 3
    assert value(found, families.RAISED, alert="no-leader") == 0
    assert value(found, families.QUEUE_AGE, queue="parked") == 0
    assert len(leaders(schedulers)) == 1


def test_after_a_change_of_leader_the_other_tells(
    schedulers: list[ClusterScheduler], eventually: Eventually
) -> None:
    eventually(lambda: whole(schedulers))
    first = next(each for each in schedulers if each.fence.ownership.leading)
    (other,) = [each for each in schedulers if each is not first]
    assert of_cluster(other) == {}
    first.quit()
    eventually(lambda: of_cluster(other))


def test_dead_letters_and_waiting_messages_are_counted(
    cluster: LiveCluster, schedulers: list[ClusterScheduler], eventually: Eventually
) -> None:
    queues = cluster.queues()
    queues.slot_queues.publish([Message(QueueKind.NEWTASK, 3, {"nonsense": 1})])

    def told() -> bool:
        found = whole(schedulers)
        return bool(found) and value(found, families.DEAD_LETTERS) == 1

    eventually(told)
    found = eventually(lambda: whole(schedulers))
    assert value(found, families.RAISED, alert="dead-letters") == 1
    queues.close()


def test_what_does_not_answer_is_left_out(
    schedulers: list[ClusterScheduler], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: whole(schedulers))

    def away() -> Any:
        raise Unavailable("the message queue is away")

    for each in schedulers:
        monkeypatch.setattr(each._services.census._sizes, "read", away)
    dead = Series(families.DEAD_LETTERS.full_name, frozenset())
    eventually(lambda: (found := whole(schedulers)) and dead not in found)
    monkeypatch.undo()
    monkeypatch.setattr(census, "INTERVAL", 0.05)
    eventually(lambda: dead in whole(schedulers))


def test_without_metrics_nobody_takes_a_census(
    tmp_path: Path, cluster_settings: Settings, eventually: Eventually
) -> None:
    cluster = LiveCluster(tmp_path, cluster_settings)
    with cluster.scheduler() as scheduler:
        eventually(lambda: scheduler.fence.held)
        assert scheduler._services.census is None
