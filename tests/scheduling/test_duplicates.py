"""Duplicates: requests for tasks that have ended, of which a crawl consists for the most part."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.duplicates import Duplicates
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.testing import SoleOwner
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


@pytest.mark.parametrize(
    ("schedule", "is_ignored"),
    [
        ({}, True),
        ({"age": None, "priority": 3}, True),
        ({"age": -1}, True),
        ({"age": 1000}, True),
        ({"itag": "a", "age": 1000}, True),
        ({"itag": "b"}, False),
        ({"age": 0}, False),
        ({"force_update": True}, False),
    ],
)
def test_the_row_that_was_read_ahead_tells_a_duplicate(
    world: World, task: Task, schedule: dict[str, Any], is_ignored: bool
) -> None:
    fenced = crawled(world, task("p", itag="a", age=9, auto_recrawl=True)).fenced
    wrote(world, status=fenced.taskdb.SUCCESS)
    fenced.projects["p"].task_queue.delete("t")
    request = task("p", **schedule)
    assert not Duplicates(fenced).ignores(request)
    fenced.read_ahead({"p": ["t"]})
    assert Duplicates(fenced).ignores(request) is is_ignored


@pytest.mark.parametrize(
    ("schedule", "is_ignored"),
    [
        ({}, True),
        ({"age": 1000}, True),
        ({"age": 1}, False),
        ({"itag": "a"}, False),
        ({"force_update": True}, False),
    ],
)
@pytest.mark.parametrize("is_sent", [True, False])
def test_a_request_for_a_task_that_is_pending_is_ignored_if_it_would_be_after_its_pack(
    world: World, task: Task, schedule: dict[str, Any], is_ignored: bool, is_sent: bool
) -> None:
    scheduler = crawling(world)
    world.new(task("p", itag="a", exetime=0 if is_sent else 2**40))
    scheduler.run_once()
    assert len(world.dispatched()) == is_sent

    scheduler.fenced.read_ahead({})

    assert Duplicates(scheduler.fenced).ignores(task("p", **schedule)) is is_ignored


@pytest.mark.parametrize(
    "method", ["on_task_status", "on_task_done", "on_task_failed", "update_task"]
)
@pytest.mark.parametrize("is_sent", [True, False])
def test_a_subclass_that_has_a_say_in_answers_decides_of_tasks_in_flight(
    world: World, task: Task, method: str, is_sent: bool
) -> None:
    world.project("p")
    world.script_is_known("p")
    curious = type("AnsweringScheduler", (FencedScheduler,), {method: lambda *_: None})
    scheduler = world.scheduler(fenced_class=curious)
    scheduler.run_once()
    world.new(task("p", exetime=0 if is_sent else 2**40))
    scheduler.run_once()

    scheduler.fenced.read_ahead({})

    assert Duplicates(scheduler.fenced).ignores(task("p")) is not is_sent


@pytest.mark.parametrize("status", [1, None, 0])
def test_a_row_that_does_not_say_that_the_task_has_ended_is_left_to_pyspider(
    world: World, task: Task, status: int | None
) -> None:
    fenced = crawled(world, task("p")).fenced
    wrote(world, status=status)
    fenced.read_ahead({"p": ["t"]})
    assert not Duplicates(fenced).ignores(task("p"))


def test_a_task_that_was_written_since_is_no_duplicate(world: World, task: Task) -> None:
    fenced = crawled(world, task("p")).fenced
    fenced.read_ahead({"p": ["t"]})
    fenced.on_request(task("p", force_update=True, cancel=True))
    assert not Duplicates(fenced).ignores(task("p"))


@pytest.mark.parametrize("method", ["task_verify", "on_request", "on_old_request"])
def test_a_subclass_that_has_a_say_is_asked_about_duplicates(
    world: World, task: Task, method: str
) -> None:
    asked = []

    def override(self: FencedScheduler, request: dict[str, Any], *more: Any) -> Any:
        asked.append(request["url"])
        return getattr(FencedScheduler, method)(self, request, *more)

    curious = type("CuriousScheduler", (FencedScheduler,), {method: override})
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler(fenced_class=curious)
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
    owner, fenced = scheduler.fence.ownership, scheduler.fenced
    assert isinstance(owner, SoleOwner)
    read_ahead = fenced.read_ahead

    def shut(wanted: Any) -> None:
        read_ahead(wanted)
        owner.lose_lease()

    monkeypatch.setattr(fenced, "read_ahead", shut)
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
    scheduler.applier.apply()
    scheduler.applier.acknowledge()
    assert scheduler.intake.is_behind("p")
