"""Numbers of projects, from what their owner holds."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.numbers import MINUTES, ProjectNumbers
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.world import World

MakeTask = Callable[..., dict[str, Any]]


@pytest.fixture
def scheduler(world: World) -> SlotScheduler:
    for name in ("p", "q"):
        world.project(name)
    made = world.scheduler()
    made.run_once()
    for name in ("p", "q"):
        world.script_is_known(name)
    return made


def rounds(scheduler: SlotScheduler) -> None:
    for _ in range(3):
        scheduler.run_once()


def test_tasks_are_counted_where_they_are(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    begun = time.time()
    later = begun + 1000
    world.new(task("p", "sent"), task("p", "later", exetime=later))
    rounds(scheduler)
    scheduler.engine.projects["p"].task_queue.put("due")
    found = ProjectNumbers(scheduler).project_numbers()["p"]
    assert (found["pending"], found["sent"], found["due"]) == (3, 1, 1)
    assert found["next_due"] == pytest.approx(later)
    assert begun <= found["due_since"] <= time.time()


def test_since_when_tasks_are_due_is_known_after_a_stop_and_a_start(
    world: World, scheduler: SlotScheduler
) -> None:
    for status in ("STOP", "RUNNING"):
        assert ProjectNumbers(scheduler).project_numbers()["p"]["due_since"] is None
        world.projectdb.update("p", status=status)
        scheduler.rows.look_soon()
        rounds(scheduler)
    begun = time.time()
    scheduler.engine.projects["p"].task_queue.put("due")
    assert ProjectNumbers(scheduler).project_numbers()["p"]["due_since"] >= begun


def test_when_every_calls_a_project_next_is_told(world: World, scheduler: SlotScheduler) -> None:
    world.script_is_known("p", min_tick=60)
    before = time.time()
    rounds(scheduler)
    numbers = ProjectNumbers(scheduler).project_numbers()
    now = time.time()
    assert numbers["p"]["every"] == 60
    assert numbers["p"]["next_tick"] % 60 == 0
    assert before - 1 < numbers["p"]["next_tick"] <= now + 60
    assert (numbers["q"]["every"], numbers["q"]["next_tick"]) == (None, None)
    world.projectdb.update("p", status="STOP")
    scheduler.rows.look_soon()
    rounds(scheduler)
    assert ProjectNumbers(scheduler).project_numbers()["p"]["every"] is None


def test_what_ended_is_in_the_totals_the_hour_and_the_rate(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    world.new(task("p", "a"), task("p", "b", retries=0))
    rounds(scheduler)
    for sent in world.dispatched():
        world.finish(sent, ok=sent["taskid"] == "a")
    rounds(scheduler)
    numbers = ProjectNumbers(scheduler)
    found = numbers.project_numbers()
    assert (found["p"]["success"], found["p"]["failed"]) == (1, 1)
    assert found["p"]["hour"] == {"success": 1, "failed": 1, "retry": 0}
    assert found["p"]["rate_now"] > 0
    assert found["q"]["hour"] == {"success": 0, "failed": 0, "retry": 0}
    (alone,) = numbers.project_numbers(["p", "unknown"]).values()
    assert {**alone, "rate_now": 0} == {**found["p"], "rate_now": 0}  # the rate falls with time
    assert numbers.project_history(["p", "q", "unknown"]) == {"p": [0] * (MINUTES - 1) + [2]}
    throughput = numbers.throughput()
    assert {event: sum(minutes) for event, minutes in throughput.items()} == {
        "success": 1,
        "failed": 1,
        "retry": 0,
    }


def test_amounts_stand_in_the_minute_that_they_began_in(scheduler: SlotScheduler) -> None:
    now = time.time()
    counter = scheduler.engine.counters["1h"]
    counter.event(("p", "success"), 1)
    live = counter.counters["p", "success"]
    for minutes, amount in ((70, 100), (59, 5), (2, 7)):
        live.times.append(now - 60 * minutes - 30)
        live.values.append(amount)
    (history,) = ProjectNumbers(scheduler).project_history(["p"]).values()
    assert len(history) == MINUTES
    assert {place: amount for place, amount in enumerate(history) if amount} == {0: 5, 57: 7, 59: 1}


BROKEN = {
    "fetch": {"ok": True, "time": 0, "status_code": 200},
    "process": {"ok": False, "exception": "bad input", "logs": "...\nSyntaxError: bad input"},
    "save": {},
}


def test_why_a_project_cannot_start_is_told_until_its_script_runs(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    def told() -> tuple[Any, int, tuple[str, ...]]:
        rounds(scheduler)
        load = scheduler._load()  # as the heartbeat asks each second
        numbers = ProjectNumbers(scheduler).project_numbers()
        return numbers["p"]["cannot_start"], load.broken, load.broken_names

    world.script_told("p", **BROKEN)
    assert told() == ("SyntaxError: bad input", 1, ("p",))
    world.new(task("p", "1"))
    rounds(scheduler)
    world.finish(world.dispatched()[-1])
    assert told() == ("SyntaxError: bad input", 1, ("p",)), "the task was sent before, say"
    world.script_is_known("p")
    assert told() == (None, 0, ()), "a module that was missing is there, say"


@pytest.mark.parametrize("between", ["CHECKING", "STOP"])
def test_a_script_that_is_saved_is_asked_anew_once_its_project_runs(
    world: World, scheduler: SlotScheduler, between: str
) -> None:
    world.script_told("p", **BROKEN)
    rounds(scheduler)
    world.asked_for_settings()
    for change in ({"status": between, "script": "mended"}, {"status": "RUNNING"}):
        world.projectdb.update("p", change)
        scheduler.rows.look_soon()
        rounds(scheduler)
        assert ProjectNumbers(scheduler).project_numbers()["p"]["cannot_start"] is None
    assert world.asked_for_settings() == ["p"]


@pytest.mark.parametrize("track", [{}, {"process": []}, {"process": {"ok": 0}, "fetch": 7}])
def test_a_strange_answer_of_a_script_harms_nothing(
    world: World, scheduler: SlotScheduler, track: Any
) -> None:
    world.script_told("p", **track)
    rounds(scheduler)
    assert not scheduler.engine.projects["p"].waiting_get_info
    assert scheduler.queues.slot_queues.dead() == 0
