"""The order of tasks of one priority when their owner changes."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.scheduling.test_task_databases import SharedWorld
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling, granted

Task = Callable[..., dict[str, Any]]
LINKS = 2_500  # more than are loaded at a time
SOME = 900


def links(task: Task, count: int, **schedule: Any) -> list[dict[str, Any]]:
    """Return new tasks of a page, whose ids are hashes."""
    found = [task("p", hashlib.md5(str(n).encode()).hexdigest()) for n in range(count)]  # noqa: S324
    return [{**each, "schedule": {"priority": n % 2, **schedule}} for n, each in enumerate(found)]


def in_order(tasks: list[dict[str, Any]]) -> list[str]:
    """Return the ids of tasks by priority, first-in first-out."""
    return [each["taskid"] for each in sorted(tasks, key=lambda it: -it["schedule"]["priority"])]


def with_links(world: World, tasks: list[dict[str, Any]]) -> SlotScheduler:
    """Return a scheduler of one project that may send nothing yet, with the tasks of a page."""
    world.project("p", rate=0, burst=0)
    scheduler = world.scheduler()
    world.new(*tasks)
    scheduler.run_once()
    while len(scheduler.engine.projects["p"].task_queue) < len(tasks):
        scheduler.run_once()
    return scheduler


def sent_by(world: World, scheduler: SlotScheduler) -> list[str]:
    """Let a project send all that it has; return the ids in their order."""
    world.projectdb.update("p", {"rate": 1e9, "burst": 1e9})
    world.script_is_known("p")
    scheduler.rows.look_soon()
    scheduler.run_once()
    while len(scheduler.engine.projects["p"].task_queue.priority_queue.queue_dict):
        scheduler.run_once()
    return [each["taskid"] for each in world.dispatched()]


def moved(world: World, before: SlotScheduler) -> SlotScheduler:
    """Return the next owner in a planned move."""
    owner = before.fence.ownership
    assert isinstance(owner, SoleOwner)
    owner.ask_back(range(SLOTS))
    before.run_once()
    after = world.scheduler(granted(2))
    after.run_once()
    return after


@pytest.mark.parametrize("kind", [World, SharedWorld])
def test_a_planned_move_leaves_the_order(tmp_path: Path, task: Task, kind: type[World]) -> None:
    world, tasks = kind(tmp_path), links(task, LINKS)

    after = moved(world, with_links(world, tasks))

    assert sent_by(world, after) == in_order(tasks)


@pytest.mark.parametrize(("kind", "count"), [(World, LINKS), (SharedWorld, SOME)])
def test_after_a_death_rows_tell_the_order(
    tmp_path: Path, task: Task, kind: type[World], count: int
) -> None:
    world, tasks = kind(tmp_path), links(task, count)
    with_links(world, tasks)

    after = world.scheduler(granted(2))

    assert sent_by(world, after) == in_order(tasks)


@pytest.mark.parametrize("kind", [World, SharedWorld])
def test_a_task_that_is_restarted_is_in_line_since_then(
    tmp_path: Path, task: Task, kind: type[World]
) -> None:
    world, tasks = kind(tmp_path), links(task, 5, priority=0, force_update=True)
    for each in tasks:
        world.taskdb.insert("p", each["taskid"], {**each, "status": world.taskdb.SUCCESS})
    tasks.reverse()
    with_links(world, tasks)

    after = world.scheduler(granted(2))

    assert sent_by(world, after) == in_order(tasks)


def test_a_priority_that_no_record_can_hold_costs_the_order_alone(world: World, task: Task) -> None:
    before = crawling(world)
    world.new(task("p", "sent"))
    before.run_once()
    world.taskdb._list_project()
    world.taskdb.insert("p", "top", {**task("p", "top", priority=2**70), "status": 1})
    before.engine.projects["p"].task_queue.bucket.bucket = 0
    before.engine.projects["p"].task_queue.bucket.rate = 0
    before.engine.projects["p"].task_queue.unloaded.add_unknown()
    before.run_once()
    before.run_once()
    world.dispatched()

    after = moved(world, before)

    assert after.engine.projects["p"].task_queue.is_processing("sent")
