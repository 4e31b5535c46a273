"""A clock that is set back stops nothing."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.clock_jumps import ClockJumps
from tests.support.world import World, read_and_write

Task = Callable[..., dict[str, Any]]
HOUR = 3600.0


class Wall:
    """The wall clock, which the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real, self.ahead = time.time, 0.0
        monkeypatch.setattr(time, "time", lambda: self.real() + self.ahead)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """Give a wall clock."""
    return Wall(monkeypatch)


def test_a_project_with_a_rate_goes_on(world: World, task: Task, wall: Wall) -> None:
    world.project("p", rate=100, burst=1)
    world.script_is_known("p")
    world.new(*(task("p", f"t{n}") for n in range(3)))
    scheduler = world.scheduler()
    scheduler.run_once()
    wall.ahead += 10
    scheduler.run_once()
    wall.ahead = -HOUR
    scheduler.run_once()
    wall.ahead += 10  # less than an hour

    scheduler.run_once()
    wall.ahead += 10
    scheduler.run_once()

    assert {each["taskid"] for each in world.dispatched()} == {"t0", "t1", "t2"}


def test_a_pause_after_failures_ends(world: World, task: Task, wall: Wall) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    scheduler.run_once()
    project = scheduler.engine.projects["p"]
    project.pause.state, project.pause.since = True, time.time()
    wall.ahead = -HOUR
    scheduler.run_once()

    wall.ahead += scheduler.engine.PAUSE_TIME + 1
    scheduler.run_once()

    assert not scheduler.engine.is_paused(project)


def test_a_task_that_was_lost_is_sent_again_in_its_time(
    world: World, task: Task, wall: Wall
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    assert len(world.dispatched()) == 1
    wall.ahead = -HOUR
    scheduler.run_once()

    wall.ahead += scheduler.engine.projects["p"].task_queue.processing_timeout + 1
    scheduler.run_once()

    assert len(world.dispatched()) == 1


def test_what_was_sent_before_the_jump_was_noticed_is_not_sent_again(
    world: World, task: Task, wall: Wall
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p", "first"))
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    assert len(world.dispatched()) == 1
    wall.ahead = -HOUR
    world.new(task("p"))
    read_and_write(scheduler)
    scheduler.selection.select()
    assert len(world.dispatched()) == 1

    scheduler.run_once()
    wall.ahead += 1
    scheduler.run_once()

    assert world.dispatched() == []


def test_a_clock_that_is_trimmed_or_goes_forward_is_left_alone() -> None:
    now = {"wall": 1000.0, "steady": 10.0}
    jumps = ClockJumps(lambda: now["wall"], lambda: now["steady"])
    found = []
    for wall, steady in ((0.5, 1.0), (900.0, 1.0), (1.0, 1.0), (-600.0, 1.0), (1.0, 1.0)):
        now["wall"] += wall
        now["steady"] += steady
        found.append(jumps.back())

    assert found == [0, 0, 0, 601.0, 0]
