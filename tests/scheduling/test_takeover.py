"""What a paused former owner may still do, and how nothing stays stranded by it."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from tests.support.sole_owner import SoleOwner
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


def test_a_project_is_not_deleted_while_the_fence_is_shut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        world.project(name, status="STOP", group="delete")
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    scheduler.engine.DELETE_TIME = 0
    dropped = scheduler.engine.projectdb.drop

    def drop_and_lose(name: str) -> None:
        dropped(name)
        owner.lose_lease()

    monkeypatch.setattr(scheduler.engine.projectdb, "drop", drop_and_lose)
    scheduler.run_once()

    assert len(list(world.projectdb.get_all(["name"]))) == 1
    assert len(scheduler.engine.projects) == 1


def _write_late(world: World, late: dict[str, Any]) -> None:
    """Write a row as an owner does that was stopped between its fence and this write."""
    taskdb = world.database("task")
    taskdb.insert(late["project"], late["taskid"], {**late, "status": TaskDB.ACTIVE})
