"""What a scheduler's metrics count is what happened."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import FAMILIES, Source
from pyspider_zk.scheduling.measures import SchedulerMeasures
from pyspider_zk.scheduling.round_pace import RoundTimes
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.metrics.reading import Numbers, family_of, numbers, undeclared, value
from tests.support.live_cluster import LiveCluster
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling

Task = Callable[..., dict[str, Any]]


def measured(scheduler: SlotScheduler) -> Numbers:
    measures = SchedulerMeasures(scheduler, RoundTimes())
    return numbers([*measures.membership(), *measures.work()])


def outcomes(scheduler: SlotScheduler) -> Mapping[str, float]:
    found = measured(scheduler)
    return {each: value(found, families.TASKS, outcome=each) for each in families.OUTCOMES}


def test_each_task_is_counted_by_what_became_of_it(world: World, task: Task) -> None:
    scheduler = crawling(world)
    before = outcomes(scheduler)
    assert (before["new"], before["known"], before["done"]) == (0, 0, 0)
    world.new(*(task("p", name) for name in "abcd"))
    scheduler.run_once()
    sent = {each["taskid"]: each for each in world.dispatched()}
    world.finish(sent["a"])
    world.finish(sent["b"], ok=False)
    scheduler.run_once()
    after = outcomes(scheduler)
    assert after == {
        "new": 4,
        "known": 0,
        "sent": before["sent"] + 4,
        "done": 1,
        "failed": 0,
        "retried": 1,
    }


def test_a_task_that_failed_for_good_is_counted_once(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a", retries=0))
    scheduler.run_once()
    world.finish(world.dispatched()[0], ok=False)
    scheduler.run_once()
    found = outcomes(scheduler)
    assert (found["failed"], found["retried"]) == (1, 0)


def test_a_request_that_changes_nothing_is_known(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"), task("p", "a"))
    scheduler.run_once()  # the second waits for the first, which is queued
    world.new(task("p", "a"), task("p", "b"))
    scheduler.run_once()  # it is in flight
    for sent in world.dispatched():
        world.finish(sent)
    scheduler.run_once()
    world.new(task("p", "a", age=1e9))
    scheduler.run_once()  # it has ended, and may rest
    found = outcomes(scheduler)
    assert (found["new"], found["known"]) == (2, 3)


def test_a_number_never_falls(world: World, task: Task) -> None:
    scheduler = crawling(world)
    before = outcomes(scheduler)
    for number in range(6):
        world.new(task("p", f"t{number % 3}", age=0), task("p", f"t{number % 2}"))
        scheduler.run_once()
        for sent in world.dispatched():
            world.finish(sent, ok=bool(number % 2))
        after = outcomes(scheduler)
        assert all(after[each] >= before[each] for each in after)
        before = after
    assert before["known"] > 0


def test_a_fence_that_closes_is_counted_once(world: World) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = crawling(world, owner)
    assert value(measured(scheduler), families.CLOSURES) == 0
    owner.lose_lease()
    for _ in range(3):
        scheduler.run_once()
    assert value(measured(scheduler), families.CLOSURES) == 1
    assert value(measured(scheduler), families.LEASE_LEFT) == -float("inf")
    owner.renew_lease()
    scheduler.run_once()
    owner.lose_lease()
    scheduler.run_once()
    assert value(measured(scheduler), families.CLOSURES) == 2


def test_slots_that_are_given_up_close_no_fence(world: World) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = crawling(world, owner)
    owner.ask_back(range(SLOTS))
    scheduler.run_once()
    scheduler.run_once()
    found = measured(scheduler)
    assert value(found, families.SLOTS_OWNED) == 0
    assert value(found, families.CLOSURES) == 0


def test_pending_tasks_are_those_in_memory_and_those_in_their_rows(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    window = scheduler.engine.attention.window_size
    window.due = window.put_off = 5
    monkeypatch.setattr(window, "share", lambda _projects: None)
    world.new(*(task("p", f"t{number}", exetime=4e9 + number) for number in range(40)))
    scheduler.run_once()
    scheduler.heartbeat._measured = float("-inf")
    scheduler.heartbeat.beat()
    found = measured(scheduler)
    unloaded = value(found, families.PENDING, state="unloaded")
    assert unloaded > 0
    assert unloaded + value(found, families.PENDING, state="loaded") == 40


@pytest.mark.zk
def test_a_running_scheduler_has_every_declared_metric_and_no_other(
    tmp_path: Path, cluster_settings: Settings, eventually: Callable[..., Any]
) -> None:
    settings = replace(cluster_settings, metrics="127.0.0.1:0")
    cluster = LiveCluster(tmp_path, settings)
    with cluster.scheduler() as scheduler:
        eventually(lambda: len(scheduler.fence.held) == settings.slots)
        eventually(lambda: scheduler.fence.ownership.vital_signs.epoch)
        found = numbers(scheduler._monitoring.exposition.registry.collect())
        assert scheduler._monitoring.health.ready() == ""
    names = {family.name for series in found if (family := family_of(series.name))}
    wanted = {each.name for each in FAMILIES if each.source in (Source.ALL, Source.SCHEDULER)}
    assert names >= wanted
    assert undeclared(found) == []
    assert value(found, families.SLOTS_OWNED) == settings.slots
    assert value(found, families.LEADING) == 1
    assert value(found, families.EPOCH) > 0
    assert value(found, families.RENEWALS, "_count") > 0
    assert value(found, families.ROUNDS, "_count", kind="whole") > 0
    assert scheduler._monitoring.health.ready().split(", ")[0] == "lease"  # it has left
