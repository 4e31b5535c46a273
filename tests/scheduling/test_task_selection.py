"""Every project has its turn, and no more waits to be sent than must."""

import logging
import time
from collections import Counter

import pytest

from pyspider_zk.scheduling.cron import CATCH_UP
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.script_calls import TICKS_WAITING
from tests.support.world import World


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


def test_a_project_that_was_cut_short_goes_on_with_its_turn(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    tasks = {**dict.fromkeys(names, 120), names[0]: 1}
    scheduler = busy(world, tasks, limit=200)  # turns of two: eleven have nine, one more has half
    scheduler.run_once()
    first = counted(world)
    assert sorted(first.values()) == [1, *[18] * 10, 19]
    (cut_short,) = (name for name in names if first[name] == 19)

    scheduler.run_once()
    second = counted(world)

    assert second[cut_short] == 19
    assert sorted(second.values()) == [18] * 9 + [19, 19]


def test_a_project_that_is_alone_uses_the_whole_round(world: World) -> None:
    scheduler = busy(world, {"p": 60, "other": 1}, limit=50)
    scheduler.run_once()
    assert counted(world) == {"p": 49, "other": 1}


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


def ticks_sent(world: World) -> list[int]:
    sent = world.dispatched()
    return [each["fetch"]["save"]["tick"] for each in sent if each["taskid"] == "_on_cronjob"]


def test_ticks_that_came_due_while_a_project_was_off_are_not_made_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=60)
    scheduler = world.scheduler()
    scheduler.run_once()
    for status in ("STOP", "RUNNING"):
        now[0] += 130
        world.projectdb.update("p", status=status)
        scheduler.rows.look_soon()
        scheduler.run_once()
    now[0] += 60
    scheduler.run_once()

    assert ticks_sent(world) == [6_000_300]


def test_ticks_count_from_the_change_that_made_a_script_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    scheduler.run_once()
    now[0] += 600
    world.projectdb.update("p", script="class Handler: other = True")
    scheduler.rows.look_soon()
    scheduler.run_once()
    now[0] += 130
    world.script_is_known("p", min_tick=60)
    scheduler.run_once()

    assert ticks_sent(world) == [6_000_660, 6_000_720]


def test_a_project_that_is_back_while_its_ticks_wait_ticks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=1)
    scheduler = world.scheduler()
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    now[0] += 100
    scheduler.run_once()
    for status in ("STOP", "RUNNING"):
        now[0] += 10
        world.projectdb.update("p", status=status)
        scheduler.rows.look_soon()
        scheduler.run_once()
    assert "p" not in scheduler.quarantine

    world.fetcher.maxsize = 0
    world.dispatched()
    scheduler.run_once()
    world.dispatched()
    now[0] += 1
    scheduler.run_once()
    assert ticks_sent(world)[-1] == now[0]
