"""Tasks that were selected and wait for room in the fetchers' queue."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock
from tests.support.world import World, crawling

Task = Callable[..., dict[str, Any]]

PAGE = {"taskid": "t", "project": "p", "url": "http://page/t"}


@pytest.fixture
def scheduler(world: World, task: Task) -> SlotScheduler:
    """A scheduler whose task waits, because the fetchers' queue is full."""
    scheduler = crawling(world)
    world.dispatched()
    world.fetcher.maxsize = 1
    world.new(task("p", "first"), task("p", "t"))
    scheduler.run_once()
    assert [each["taskid"] for each in scheduler.fenced.send_buffer] == ["t"]
    return scheduler


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which time-outs end."""
    clock = Clock(time.time())
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.fixture
def late(scheduler: SlotScheduler, clock: Clock) -> None:
    """The time-out of what waits ends."""
    clock.now += scheduler.fenced.projects["p"].task_queue.processing_timeout + 1


def test_a_task_whose_answer_is_here_is_not_sent_again(
    world: World, scheduler: SlotScheduler
) -> None:
    """The queue had taken it though it said no, or a former owner had sent it."""
    world.finish(PAGE)
    scheduler.run_once()
    world.dispatched()
    scheduler.run_once()

    assert world.statuses("p")["t"] == 2
    assert world.dispatched() == []


def test_a_task_that_is_to_be_tried_again_is_sent_for_that_alone(
    world: World, scheduler: SlotScheduler
) -> None:
    world.script_is_known("p", retry_delay={"": 0})
    world.finish(PAGE, ok=False)
    scheduler.run_once()
    world.dispatched()
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]


def test_an_answer_that_nobody_waits_for_withdraws_nothing(
    world: World, scheduler: SlotScheduler
) -> None:
    scheduler.fenced.send_by_hand({**PAGE, "taskid": "message"})
    world.finish({**PAGE, "taskid": "message"})
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t", "message"]


def test_the_time_out_of_a_task_that_waited_begins_when_it_is_sent(
    world: World, scheduler: SlotScheduler, clock: Clock
) -> None:
    time_out = scheduler.fenced.projects["p"].task_queue.processing_timeout
    clock.now += time_out / 2
    world.fetcher.maxsize = 0
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["first", "t"]
    clock.now += time_out - 1
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["first"]
    clock.now += 2
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["t"]


@pytest.mark.usefixtures("late")
def test_a_task_whose_time_out_ends_while_it_waits_waits_once(
    world: World, scheduler: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as after a move, if the next owner's clock is ahead; another member takes the room."""
    monkeypatch.setattr(scheduler.fenced.out_queue, "full", lambda: False)
    scheduler.run_once()

    assert [each["taskid"] for each in scheduler.fenced.send_buffer].count("t") == 1
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()].count("t") == 1


@pytest.mark.usefixtures("late")
def test_a_task_that_was_due_again_while_it_waited_is_in_flight_once_it_is_sent(
    world: World, scheduler: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time-out ended, and its project's rate did not let it be selected again yet."""
    monkeypatch.setattr(scheduler.fenced.out_queue, "full", lambda: False)
    tasks = scheduler.fenced.projects["p"].task_queue
    with monkeypatch.context() as no_tokens:
        no_tokens.setattr(tasks.bucket, "get", lambda: 0)
        scheduler.run_once()
        assert "t" in tasks.priority_queue
        world.dispatched()
        world.fetcher.maxsize = 0
        scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["t"]

    scheduler.run_once()
    assert "t" not in [each["taskid"] for each in world.dispatched()]
    world.finish(PAGE)
    scheduler.run_once()
    assert world.statuses("p")["t"] == 2


@pytest.mark.usefixtures("late")
def test_a_task_that_is_restarted_while_it_waits_is_sent_as_it_is_now(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    """What waits is the former request; it is not to count as the new one."""
    scheduler.fenced.projects["p"].task_queue.check_update()
    world.new(task("p", "t", force_update=True, itag="new"))
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()
    scheduler.run_once()

    sent = [each for each in world.dispatched() if each["taskid"] == "t"]
    assert [each["schedule"].get("itag") for each in sent] == ["new"]
