"""What a paused former owner may still do, and how nothing stays stranded by it."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.scheduling.active_tasks import ZOMBIE_WINDOW
from pyspider_zk.testing import SoleOwner
from tests.support.world import SLOTS, World, granted

Task = Callable[..., dict[str, Any]]


def test_a_row_that_a_paused_owner_wrote_late_is_scheduled_when_its_message_comes_again(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p")
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    _write_late(world, task("p", "late"))

    world.new(task("p", "late"))
    after.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["late"]


def test_a_row_that_a_paused_owner_wrote_late_is_found_by_a_second_look(
    world: World, task: Task, clock: "TakeoverClock"
) -> None:
    world.project("p")
    world.script_is_known("p")
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    _write_late(world, task("p", "late"))
    after.run_once()
    assert world.dispatched() == []

    clock.now += ZOMBIE_WINDOW
    after.run_once()
    after.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["late"]


def test_the_second_look_sends_nothing_again(
    world: World, task: Task, clock: "TakeoverClock"
) -> None:
    world.project("p")
    world.script_is_known("p")
    after = world.scheduler(granted(epoch=2))
    world.new(task("p", "a"), task("p", "b"))
    after.run_once()
    after.run_once()
    first, _ = world.dispatched()
    world.finish(first)
    after.run_once()

    clock.now += ZOMBIE_WINDOW
    after.run_once()
    after.run_once()

    assert world.dispatched() == []


def test_after_a_planned_move_there_is_no_second_look(
    world: World, task: Task, clock: "TakeoverClock"
) -> None:
    world.project("p")
    world.script_is_known("p")
    owner = SoleOwner(SLOTS)
    before = world.scheduler(owner)
    before.run_once()
    owner.ask_back(range(SLOTS))
    before.run_once()
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    _write_late(world, task("p", "never"))

    clock.now += ZOMBIE_WINDOW
    after.run_once()
    after.run_once()

    assert world.dispatched() == []


def test_a_project_is_not_deleted_while_the_fence_is_shut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        world.project(name, status="STOP", group="delete")
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    scheduler.fenced.DELETE_TIME = 0
    dropped = scheduler.fenced.projectdb.drop

    def drop_and_lose(name: str) -> None:
        dropped(name)
        owner.lose_lease()

    monkeypatch.setattr(scheduler.fenced.projectdb, "drop", drop_and_lose)
    scheduler.run_once()

    assert len(list(world.projectdb.get_all(["name"]))) == 1
    assert len(scheduler.fenced.projects) == 1


class TakeoverClock:
    """A monotonic clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("pyspider_zk.scheduling.active_tasks.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TakeoverClock:
    """Give a clock that stands still."""
    return TakeoverClock(monkeypatch)


def _write_late(world: World, late: dict[str, Any]) -> None:
    """Write a row as an owner does that was stopped between its fence and this write."""
    taskdb = world.database("task")
    taskdb.insert(late["project"], late["taskid"], {**late, "status": TaskDB.ACTIVE})
