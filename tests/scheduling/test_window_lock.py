"""A project's window changes under its lock alone: the web UI's numbers are read under it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.clock_jumps import trim_project
from pyspider_zk.scheduling.window import TaskHeap, Window
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted, with_table

Task = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def changes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Give whether the lock was held, for each change."""
    held: list[bool] = []
    locks: dict[TaskHeap, Any] = {}
    made = Window.__init__

    def make(window: Window, *args: Any) -> None:
        made(window, *args)
        locks.update(dict.fromkeys(window._places(), window.mutex))

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        def do(heap: TaskHeap, *args: Any) -> Any:
            held.append(locks[heap]._is_owned())
            return change(heap, *args)

        return do

    monkeypatch.setattr(Window, "__init__", make)
    for name in ("add", "get_nowait", "pop"):
        monkeypatch.setattr(TaskHeap, name, watched(getattr(TaskHeap, name)))
    return held


def clock_set_back(world: World, task: Task) -> None:
    trim_project(with_table(world, task).engine.projects["p"], time.time() - 3600)


def planned_move(world: World, task: Task) -> None:
    owner = SoleOwner(SLOTS)
    before = with_table(world, task, owner)
    owner.ask_back(range(SLOTS))
    before.run_once()
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    assert after.engine.projects["p"].task_queue.is_processing("first")


def death_of_the_former_owner(world: World, task: Task) -> None:
    with_table(world, task)
    (sent,) = world.dispatched()
    world.finish(sent)
    world.scheduler(granted(epoch=2)).run_once()
    assert world.statuses("p") == {"first": world.taskdb.SUCCESS}


def refused_row(world: World, task: Task) -> None:
    scheduler = with_table(world, task)
    (sent,) = world.dispatched()
    world.refuse_row("p", "first")
    world.finish(sent)
    scheduler.run_once()
    assert scheduler.engine.projects["p"].task_queue.is_processing("first")


@pytest.mark.parametrize(
    "happens", [clock_set_back, planned_move, death_of_the_former_owner, refused_row]
)
def test_a_window_changes_under_its_lock(
    world: World, task: Task, changes: list[bool], happens: Callable[[World, Task], None]
) -> None:
    happens(world, task)

    assert changes
    assert all(changes)
