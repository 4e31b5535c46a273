"""Duplicates: requests for tasks that have ended, of which a crawl consists for the most part."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import World, crawling

Task = Callable[..., dict[str, Any]]


def crawled(world: World, first: dict[str, Any]) -> SlotScheduler:
    """Return a scheduler that has crawled a task."""
    scheduler = crawling(world)
    finished(world, scheduler, first)
    return scheduler


def finished(world: World, scheduler: SlotScheduler, first: dict[str, Any]) -> None:
    world.new(first)
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.finish(sent)
    scheduler.run_once()


def wrote(world: World, **columns: Any) -> None:
    """Change a row past the scheduler."""
    world.taskdb._list_project()
    world.taskdb.update("p", "t", **columns)


SCHEDULES = pytest.mark.parametrize(
    ("schedule", "is_sent"),
    [
        ({}, False),
        ({"age": None, "priority": 3}, False),
        ({"age": -1}, False),
        ({"age": 1000}, False),
        ({"itag": "a", "age": 1000}, False),
        ({"itag": "b"}, True),
        ({"age": 0}, True),
        ({"force_update": True}, True),
    ],
)


@SCHEDULES
def test_a_request_for_a_task_that_has_ended_runs_it_again_or_changes_nothing(
    world: World, task: Task, schedule: dict[str, Any], is_sent: bool
) -> None:
    scheduler = crawled(world, task("p", itag="a", age=9, auto_recrawl=True))
    wrote(world, status=scheduler.engine.taskdb.SUCCESS)
    scheduler.engine.projects["p"].task_queue.delete("t")

    world.new(task("p", **schedule))
    scheduler.run_once()

    assert len(world.dispatched()) == is_sent
    assert scheduler.engine.counts.unchanged == (not is_sent)
    assert world.waiting() == 0


@SCHEDULES
def test_a_request_beside_the_pack_of_its_task_meets_what_the_pack_leaves(
    world: World, task: Task, schedule: dict[str, Any], is_sent: bool
) -> None:
    scheduler = crawling(world)
    world.new(task("p", itag="a"))
    scheduler.run_once()
    (sent,) = world.dispatched()

    world.new(task("p", **schedule))
    world.finish(sent)
    scheduler.run_once()

    assert len(world.dispatched()) == is_sent
    assert world.waiting() == 0


@pytest.mark.parametrize("is_put_off", [True, False])
def test_a_request_for_a_task_that_is_pending_changes_nothing_unless_it_is_forced(
    world: World, task: Task, is_put_off: bool
) -> None:
    scheduler = crawling(world)
    world.new(task("p", exetime=2**40 if is_put_off else 0))
    scheduler.run_once()
    assert len(world.dispatched()) == (not is_put_off)

    world.new(task("p", age=0, itag="new"))
    scheduler.run_once()

    assert scheduler.engine.counts.unchanged == 1
    assert world.waiting() == 0
    assert not world.dispatched()


@pytest.mark.parametrize("method", ["task_verify", "on_request", "on_old_request"])
def test_a_subclass_that_has_a_say_is_asked_about_duplicates(
    world: World, task: Task, method: str
) -> None:
    asked = []

    def override(self: TaskEngine, request: dict[str, Any], *more: Any) -> Any:
        asked.append(request["url"])
        return getattr(TaskEngine, method)(self, request, *more)

    curious = type("CuriousScheduler", (TaskEngine,), {method: override})
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler(engine_class=curious)
    scheduler.run_once()
    finished(world, scheduler, task("p"))
    asked.clear()

    world.new(task("p"))
    scheduler.run_once()

    assert asked == ["http://site.example/t"]
    assert world.waiting() == 0


def test_a_duplicate_needs_no_schedule_of_its_row(world: World, task: Task) -> None:
    scheduler = crawled(world, task("p"))
    world.taskdb._execute("UPDATE taskdb_p SET schedule = '{no json'")

    world.new(task("p"))
    scheduler.run_once()

    assert world.waiting() == 0
    assert not world.dispatched()


def test_a_duplicate_that_was_compared_behind_a_shut_fence_stays_in_its_queue(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawled(world, task("p"))
    owner, taskdb = scheduler.fence.ownership, scheduler.engine.taskdb
    assert isinstance(owner, SoleOwner)
    get_task = taskdb.get_task

    def shut(*asked: Any) -> Any:
        row = get_task(*asked)
        owner.lose_lease()
        return row

    monkeypatch.setattr(taskdb, "get_task", shut)
    world.new(task("p"))
    scheduler.run_once()
    assert world.waiting() == 1

    owner.renew_lease()
    scheduler.applier.finish()
    assert world.waiting() == 0


@pytest.mark.parametrize("schedule", [{"age": 0}, {"itag": "new"}, {"force_update": True}])
def test_what_ended_lately_is_crawled_again_on_request(
    world: World, task: Task, schedule: dict[str, Any]
) -> None:
    scheduler = crawled(world, task("p"))
    world.new(task("p", **schedule))
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["t"]


def test_requests_of_one_round_take_effect_in_their_order(world: World, task: Task) -> None:
    """What waits is cancelled, and then requested: without the first, the second is ignored."""
    scheduler = crawling(world)
    world.new(task("p", exetime=2**40))
    scheduler.run_once()

    cancel, again = task("p", force_update=True, cancel=True), task("p", age=1000)
    world.new(cancel, again)
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]


def test_a_duplicate_waits_behind_what_is_parked(world: World, task: Task) -> None:
    scheduler = crawled(world, task("p"))
    scheduler.quarantine.put("p", ValueError("broken"))
    world.new(task("p"))
    scheduler.intake.read(10)
    scheduler.applier.apply(with_parked=True)
    scheduler.applier.acknowledge()
    assert scheduler.intake.is_behind("p")
