"""A round looks at the projects that something happened to, at no others, and misses none."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling import scheduler as scheduler_module
from pyspider_zk.scheduling.attention import Attention
from pyspider_zk.scheduling.scheduler import SAVE_INTERVAL, SlotScheduler
from pyspider_zk.scheduling.window import WindowSize
from tests.support.clock import Clock
from tests.support.seed import SEED
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted

Task = Callable[..., dict[str, Any]]


class Asked(dict[str, Any]):
    """Projects that note whether anybody goes through them or looks one up."""

    asked = 0

    def __iter__(self) -> Any:
        self.asked += 1
        return super().__iter__()

    def __getitem__(self, name: str) -> Any:
        self.asked += 1
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(name, default)

    def items(self) -> Any:
        self.asked += 1
        return super().items()

    def values(self) -> Any:
        self.asked += 1
        return super().values()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give a wall clock."""
    clock = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    return clock


def crowd(world: World, running: int, stopped: int) -> SlotScheduler:
    for number in range(running):
        world.project(f"p{number}")
        world.script_is_known(f"p{number}", min_tick=60)
    for number in range(stopped):
        world.project(f"s{number}", status="STOP", group="delete", updatetime=time.time())
    scheduler = world.scheduler()
    for _ in range(3):
        scheduler.run_once()
    return scheduler


def test_each_step_is_told_once_of_a_queue_that_changed_often() -> None:
    attention = Attention(WindowSize())
    for _ in range(3):
        attention.on_tasks("p")
    assert attention.selection.take(time.time()) == ["p"]
    assert attention.unsaved == attention.windows == attention.pending.changed == {"p"}
    assert attention.selection.take(time.time()) == []


@pytest.mark.parametrize("step", ["unsaved", "windows", "pending"])
def test_whichever_step_asks_first_is_told(step: str) -> None:
    attention = Attention(WindowSize())
    attention.on_tasks("p")
    told = getattr(attention, step)
    assert getattr(told, "changed", told) == {"p"}


def test_no_step_is_told_of_a_project_that_was_forgotten() -> None:
    attention = Attention(WindowSize())
    attention.on_tasks("p")
    attention.forget("p")
    assert attention.selection.take(time.time()) == []
    assert attention.unsaved == attention.windows == attention.pending.changed == set()


def test_projects_with_nothing_to_do_are_not_looked_at(world: World, wall: Clock) -> None:
    scheduler = crowd(world, running=5, stopped=20)
    projects = scheduler.engine.projects = Asked(scheduler.engine.projects)

    for _ in range(20):
        wall.now += 0.1
        scheduler.run_once()
        scheduler.take_arrivals()

    assert projects.asked == 0
    assert len(projects) == 25


def test_a_minute_saves_the_slots_that_changed(world: World, wall: Clock, task: Task) -> None:
    scheduler = crowd(world, running=0, stopped=20)
    world.project("p")
    world.script_is_known("p")
    scheduler.rows.look_soon()
    scheduler.run_once()
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    world.broker.records.clear()

    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    assert world.broker.records == {}, "nothing happened since"

    world.new(task("p"))
    scheduler.run_once()
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    assert list(world.broker.records) == [scheduler.fence.slot("p")]


def test_slots_with_news_are_saved_for_a_share_of_each_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "NEWS_SHARE", 0.0)
    monkeypatch.setattr(scheduler_module, "SLOTS_AT_ONCE", 1)
    scheduler = world.scheduler()
    for number in range(3):
        world.project(f"p{number}")
    scheduler.run_once()
    world.broker.records.clear()
    for number in range(3):
        world.script_is_known(f"p{number}")

    saved = []
    for _ in range(4):
        scheduler.run_once()
        saved.append(len(world.broker.records))

    assert saved == [1, 2, 3, 3]


def test_a_slot_that_comes_back_is_saved_whole(world: World, wall: Clock) -> None:
    owner = SoleOwner(SLOTS)
    world.project("p")
    scheduler = world.scheduler(owner)
    scheduler.run_once()
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    world.broker.records.clear()

    owner.view = granted(epoch=2).view
    scheduler.run_once()
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()

    assert list(world.broker.records) == [scheduler.fence.slot("p")]


def test_the_load_counts_every_task_once(world: World, wall: Clock, task: Task) -> None:
    scheduler = crowd(world, running=2, stopped=1)
    world.new(*(task("p0", str(n)) for n in range(5)), task("p1", exetime=wall.now + 100))
    for _ in range(2):
        wall.now += 1
        scheduler.run_once()
    for sent in world.dispatched()[:2]:
        world.finish(sent)
    scheduler.run_once()

    counted = scheduler.engine.attention.pending.count()
    assert counted == len(scheduler.engine) == 4
    world.projectdb.update("p0", status="STOP")
    scheduler.rows.look_soon()
    scheduler.run_once()
    counted = scheduler.engine.attention.pending.count()
    assert counted == len(scheduler.engine) == 1


@pytest.mark.parametrize("seed", [1, pytest.param(SEED, marks=pytest.mark.soak, id="SEED")])
def test_nothing_that_may_be_sent_is_left(world: World, wall: Clock, task: Task, seed: int) -> None:
    """Random changes; after each round no queue holds what pyspider would send."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    names = [f"p{number}" for number in range(4)]
    for name in names:
        world.project(name, rate=chance.choice([0.5, 3, 1e9]), burst=chance.choice([1, 5]))
        world.script_is_known(name)
    scheduler = world.scheduler()
    for number in range(200):
        name, when = chance.choice(names), chance.choice([0, 0, wall.now + 5, wall.now + 700])
        match chance.randrange(6):
            case 0 | 1:
                world.new(*(task(name, f"{number}-{n}", exetime=when) for n in range(3)))
            case 2:
                for sent in world.dispatched()[::2]:  # the others are lost
                    world.finish(sent, ok=chance.random() < 0.7)
            case 3:
                status = chance.choice(["STOP", "RUNNING", "RUNNING"])
                world.projectdb.update(name, status=status, rate=chance.choice([0, 1, 50]))
                scheduler.rows.look_soon()
            case _:
                wall.now += chance.choice([0.1, 1, 20, 601])
        scheduler.run_once()
        assert [each for each in names if _may_send(scheduler, each)] == []


def _may_send(scheduler: SlotScheduler, name: str) -> bool:
    """Return whether pyspider's selection would send a task of a project."""
    project = scheduler.engine.projects[name]
    if not project.active or scheduler.engine.is_paused(project) or project.waiting_get_info:
        return False
    tasks = project.task_queue
    tasks.check_update()
    return bool(tasks.priority_queue.qsize() and tasks.bucket.get() >= 1)


def test_ticks_that_waited_and_were_sent_are_not_sent_again_after_a_death(
    world: World, wall: Clock
) -> None:
    world.project("p")
    world.script_is_known("p", min_tick=1800)
    scheduler = world.scheduler(granted(epoch=1))
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    wall.now += 1800
    scheduler.run_once()
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    world.fetcher.maxsize = 0
    assert len(world.dispatched()) == 1, "the tick waits"
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["_on_cronjob"]
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()

    world.scheduler(granted(epoch=2)).run_once()

    assert world.dispatched() == []


def test_a_minute_saves_what_a_project_in_quarantine_left(world: World, wall: Clock) -> None:
    scheduler = crowd(world, running=1, stopped=0)
    wall.now += SAVE_INTERVAL + 1
    scheduler.run_once()
    wall.now += 60
    scheduler.script_calls.send_ticks()
    last = scheduler.cron.last("p0")
    scheduler.project_set.put_aside("p0", ValueError("a fault of its own"))
    wall.now += 1
    scheduler.run_once()

    slot = scheduler.fence.slot("p0")
    record = world.queues.records.load(slot)
    assert record is not None
    assert record["projects"]["p0"]["tick"] == last
