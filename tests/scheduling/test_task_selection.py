"""Every project has its turn, and no more waits to be sent than must."""

import logging
import time
from collections import Counter

import pytest

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling.cron import CATCH_UP
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.script_calls import TICKS_WAITING
from tests.support.world import SLOTS, World


def busy(world: World, tasks: dict[str, int], limit: int) -> SlotScheduler:
    """Return a scheduler of a small share per round, for projects with so many tasks each."""
    for name, count in tasks.items():
        world.project(name)
        world.script_is_known(name)
        for number in range(count):
            row = {"taskid": f"t{number}", "url": "http://x.example/", "status": 1}
            world.taskdb.insert(name, f"t{number}", {**row, "project": name, "schedule": {}})
    scheduler = world.scheduler()
    scheduler.fenced.LOOP_LIMIT = limit
    return scheduler


def counted(world: World) -> Counter[str]:
    return Counter(sent["project"] for sent in world.dispatched())


def test_of_more_busy_projects_than_a_round_serves_none_is_left_out(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    scheduler = busy(world, dict.fromkeys(names, 60), limit=50)  # five of each of ten

    for _ in range(12):
        scheduler.run_once()

    sent = counted(world)
    assert set(sent) == set(names)
    assert max(sent.values()) - min(sent.values()) <= 5


def test_a_project_that_was_cut_short_comes_first_next_time(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    names.sort(key=lambda name: slot_of(name, SLOTS))  # in which they are loaded
    tasks = {**dict.fromkeys(names, 9), names[0]: 1}
    scheduler = busy(world, tasks, limit=20)  # two of each, but one of the first
    scheduler.run_once()
    first = counted(world)

    scheduler.run_once()
    second = [sent["project"] for sent in world.dispatched()]

    assert [first[name] for name in names[9:]] == [2, 1, 0]
    assert second[:4] == [names[10], names[10], names[11], names[11]]


def test_a_full_out_queue_loses_nothing_and_starves_nobody(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    scheduler = busy(world, dict.fromkeys(names, 20), limit=50)
    world.fetcher.maxsize = 7
    sent: list[tuple[str, str]] = []
    for _ in range(100):
        scheduler.run_once()
        sent += [(each["project"], each["taskid"]) for each in world.dispatched()]
    tasks = [each for each in sent if each[1].startswith("t")]
    first = Counter(project for project, _ in tasks[:120])

    assert set(first) == set(names)
    assert len(tasks) == len(set(tasks)) == 12 * 20


def test_ticks_that_cannot_be_sent_do_not_pile_up_and_are_made_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=1)
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    world.dispatched()
    # given fetchers that are away for ten minutes
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    for _ in range(6):
        now[0] += 100
        scheduler.run_once()
        assert len(scheduler.fenced.send_buffer) <= TICKS_WAITING
    # when they are back
    world.fetcher.maxsize = 0
    world.dispatched()
    for _ in range(70):
        scheduler.run_once()
    # then none is missing
    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched()]
    assert ticks == list(range(6_000_001, 6_000_601))


def test_ticks_that_are_lost_are_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=60)
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    for _ in range(100):
        now[0] += 100
        scheduler.run_once()
    world.fetcher.maxsize = 0
    world.dispatched()
    with caplog.at_level(logging.ERROR, "scheduler"):
        for _ in range(20):
            scheduler.run_once()

    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched()]
    waited, made_up = ticks[:TICKS_WAITING], ticks[TICKS_WAITING:]
    assert waited == list(range(6_000_060, 6_000_660, 60))
    assert made_up == list(range(int(now[0]) - CATCH_UP + 20, int(now[0]) + 1, 60))
    assert len([each for each in caplog.messages if "ticks are lost" in each]) == 1
