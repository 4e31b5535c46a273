"""When a script's ``on_finished`` is called, whoever owns the project then."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling, granted, save_all

Task = Callable[..., dict[str, Any]]
WAIT = 14  # rounds, enough for pyspider's wait before ``on_finished``


def rounds(world: World, scheduler: SlotScheduler, count: int = WAIT) -> list[str]:
    """Run rounds; return which tasks were sent."""
    for _ in range(count):
        scheduler.run_once()
    return [each["taskid"] for each in world.dispatched()]


@pytest.fixture
def before(world: World, task: Task) -> SlotScheduler:
    """Give an owner that has sent the pages ``a`` and ``b``."""
    scheduler = crawling(world)
    world.new(task("p", "a"), task("p", "b"))
    assert rounds(world, scheduler, 2) == ["a", "b"]
    return scheduler


def next_owner(world: World, epoch: int = 2) -> SlotScheduler:
    """Return who takes everything over after a death."""
    world.script_is_known("p")
    return world.scheduler(granted(epoch))


@pytest.mark.usefixtures("before")
def test_an_owner_dies_with_pages_under_way(world: World, task: Task) -> None:
    after = next_owner(world)
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))

    assert rounds(world, after) == ["on_finished"]
    world.finish(task("p", "on_finished"))
    assert rounds(world, after) == []


@pytest.mark.parametrize("waited", [1, 4, 11, 13])
def test_an_owner_dies_after_the_last_page(
    world: World, task: Task, before: SlotScheduler, waited: int
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    sent = rounds(world, before, waited)
    if sent:
        world.finish(task("p", "on_finished"))

    after = next_owner(world)

    assert sent + rounds(world, after) == ["on_finished"]
    world.finish(task("p", "on_finished"))
    assert rounds(world, after) == []
    assert rounds(world, next_owner(world, 3)) == []
    assert set(world.statuses("p").values()) == {TaskDB.SUCCESS}


@pytest.mark.parametrize("waited", range(9, 14))
def test_an_owner_dies_right_after_it_saved_its_records(
    world: World, task: Task, before: SlotScheduler, waited: int
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    sent = rounds(world, before, waited)
    save_all(before)
    if sent:
        world.finish(task("p", "on_finished"))

    after = next_owner(world)

    assert sent + rounds(world, after) == ["on_finished"]


def test_an_owner_dies_after_a_page_came_late(
    world: World, task: Task, before: SlotScheduler
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    rounds(world, before, 4)
    world.new(task("p", "late"))
    assert rounds(world, before, 3) == ["late"]

    after = next_owner(world)

    assert rounds(world, after) == ["late"]
    world.finish(task("p", "late"))
    assert rounds(world, after) == ["on_finished"]


def test_a_page_that_comes_late_puts_it_off(
    world: World, task: Task, before: SlotScheduler
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    rounds(world, before, 4)
    world.new(task("p", "late"))
    assert rounds(world, before) == ["late"]
    world.finish(task("p", "late"))
    assert rounds(world, before) == ["on_finished"]
    world.finish(task("p", "on_finished"))
    assert rounds(world, before) == []
    assert before.engine.counters["all"].to_dict("sum")["p"] == {"success": 4}


@pytest.mark.parametrize("waited", [1, 4, 11, 13])
def test_an_owner_leaves_after_the_last_page(
    world: World, task: Task, before: SlotScheduler, waited: int
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    sent = rounds(world, before, waited)
    owner = before.fence.ownership
    assert isinstance(owner, SoleOwner)
    owner.ask_back(range(SLOTS))
    before.run_once()

    after = next_owner(world)

    assert sent + rounds(world, after) == ["on_finished"]
    world.finish(task("p", "on_finished"))
    assert rounds(world, after) == []


def test_one_that_fails_is_tried_again_after_its_delay_by_the_next_owner(
    world: World, task: Task, before: SlotScheduler
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    assert rounds(world, before) == ["on_finished"]
    world.finish(task("p", "on_finished", retries=3), ok=False)
    rounds(world, before)

    after = next_owner(world)

    assert rounds(world, after, 2 * WAIT) == []
    assert len(after.engine.projects["p"].task_queue.time_queue.queue_dict) == 1


def test_a_database_that_is_away_during_the_takeover_is_asked_again(
    world: World, task: Task, before: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.finish(task("p", "a"))
    world.finish(task("p", "b"))
    before.run_once()
    after = next_owner(world)
    find, failures = after.engine.taskdb.get_task, [DatabaseAway("taskdb is away")]

    def find_or_fail(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return find(*args)

    monkeypatch.setattr(after.engine.taskdb, "get_task", find_or_fail)

    assert rounds(world, after) == ["on_finished"]
    assert failures == []
