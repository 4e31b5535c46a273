"""Requests for the settings of a script that does not answer are repeated."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.script_info import LOOK, PAUSES, InfoRequests
from tests.support.clock import Clock
from tests.support.world import SLOTS, World

Task = Callable[..., dict[str, Any]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(InfoRequests.__init__, "__defaults__", (made,))
    return made


def requested(world: World) -> int:
    found = 0
    while not world.fetcher.empty():
        found += world.fetcher.get_nowait()["taskid"] == "_on_get_info"
    return found


def later(scheduler: SlotScheduler, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    scheduler.run_once()


def test_a_request_that_is_not_answered_is_repeated_later_and_later() -> None:
    clock = Clock()
    requests = InfoRequests(clock)
    assert requests.due(["p"]) == []
    for pause in (*PAUSES, PAUSES[-1]):
        clock.now += pause - 1
        assert requests.due(["p"]) == []
        clock.now += 1
        assert requests.due(["p"]) == ["p"]


def test_who_was_answered_begins_anew() -> None:
    clock = Clock()
    requests = InfoRequests(clock)
    requests.due(["p", "q"])
    clock.now += PAUSES[0]
    requests.due(["p", "q"])
    requests.due(["q"])
    requests.due(["p", "q"])
    clock.now += PAUSES[0]
    assert requests.due(["p", "q"]) == ["p"]


def test_a_project_runs_though_the_first_answer_was_lost(
    world: World, task: Task, clock: Clock
) -> None:
    world.project("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    later(scheduler, clock, 0)
    assert requested(world) == 1

    later(scheduler, clock, PAUSES[0] - LOOK)
    assert requested(world) == 0
    later(scheduler, clock, LOOK)
    assert requested(world) == 1
    world.script_is_known("p")
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]
    later(scheduler, clock, PAUSES[-1])
    later(scheduler, clock, PAUSES[-1])
    assert requested(world) == 0


def test_the_next_owner_asks_too(world: World, clock: Clock) -> None:
    world.project("p")
    first = world.scheduler()
    later(first, clock, 0)
    first.fence.ownership.ask_back(range(SLOTS))  # type: ignore[union-attr]
    first.run_once()
    requested(world)

    after = world.scheduler()
    later(after, clock, 0)
    first_request = requested(world)
    later(after, clock, PAUSES[0])

    assert (first_request, requested(world)) == (1, 1)


def test_a_question_that_waits_to_be_sent_is_not_doubled(world: World, clock: Clock) -> None:
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    world.project("p")
    scheduler = world.scheduler()
    for _ in range(5):
        later(scheduler, clock, PAUSES[-1])

    assert len(scheduler.fenced.send_buffer) == 1


def test_a_script_that_stopped_is_not_asked(world: World, clock: Clock) -> None:
    world.project("p", status="STOP")
    scheduler = world.scheduler()
    for _ in range(3):
        later(scheduler, clock, PAUSES[-1])
    assert requested(world) == 0
