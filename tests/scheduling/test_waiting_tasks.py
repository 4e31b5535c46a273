"""Tasks that were selected and wait for room in the fetchers' queue."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock
from tests.support.world import World, crawling, save_all

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
    assert [each["taskid"] for each in scheduler.engine.dispatch.waiting] == ["t"]
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
    clock.now += scheduler.engine.projects["p"].task_queue.processing_timeout + 1


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
    scheduler.engine.send_by_hand({**PAGE, "taskid": "message"})
    world.finish({**PAGE, "taskid": "message"})
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t", "message"]


def test_the_time_out_of_a_task_that_waited_begins_when_it_is_sent(
    world: World, scheduler: SlotScheduler, clock: Clock
) -> None:
    time_out = scheduler.engine.projects["p"].task_queue.processing_timeout
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
    monkeypatch.setattr(scheduler.engine.out_queue, "full", lambda: False)
    scheduler.run_once()

    assert [each["taskid"] for each in scheduler.engine.dispatch.waiting].count("t") == 1
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()].count("t") == 1


@pytest.mark.usefixtures("late")
def test_a_task_that_was_due_again_while_it_waited_is_in_flight_once_it_is_sent(
    world: World, scheduler: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time-out ended, and its project's rate did not let it be selected again yet."""
    monkeypatch.setattr(scheduler.engine.out_queue, "full", lambda: False)
    tasks = scheduler.engine.projects["p"].task_queue
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
    scheduler.engine.projects["p"].task_queue.check_update()
    world.new(task("p", "t", force_update=True, itag="new"))
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 0
    scheduler.run_once()
    scheduler.run_once()

    sent = [each for each in world.dispatched() if each["taskid"] == "t"]
    assert [each["schedule"].get("itag") for each in sent] == ["new"]


class AppendedMeanwhile(dict[str, Any]):
    """A task that waits: while it is looked at, another thread sends one by hand, once."""

    def __init__(self, scheduler: SlotScheduler) -> None:
        super().__init__(PAGE, taskid="_on_cronjob")
        self._hand_in = scheduler.engine.send_by_hand

    def __getitem__(self, key: str) -> Any:
        hand_in, self._hand_in = self._hand_in, lambda _: None
        hand_in({**PAGE, "taskid": "by hand", "project": "q"})
        return super().__getitem__(key)


LOOKS: dict[str, Callable[[SlotScheduler], object]] = {
    "save": save_all,
    "put aside": lambda scheduler: scheduler.project_set.put_aside("p", ValueError("a fault")),
    "ticks": lambda scheduler: scheduler.script_calls.send_ticks(),
    "information": lambda scheduler: scheduler.script_calls.repeat_info_requests(),
}


def _is_asked_again(scheduler: SlotScheduler) -> None:
    """Let the script of ``p`` have left a request without an answer for long."""
    scheduler.script_calls._asked = {"p": (float("-inf"), 0)}
    scheduler.script_calls._next_look = float("-inf")
    scheduler.engine.projects["p"].waiting_get_info = True


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_task_may_be_sent_by_hand_while_those_that_wait_are_looked_at(
    scheduler: SlotScheduler, look: Callable[[SlotScheduler], object]
) -> None:
    scheduler.engine.attention.ticks.now("p")
    _is_asked_again(scheduler)
    scheduler.engine.dispatch.waiting.append(AppendedMeanwhile(scheduler))

    look(scheduler)
    scheduler.engine.calls.make()

    assert "by hand" in [each["taskid"] for each in scheduler.engine.dispatch.waiting]
    faults = [each["reason"] for each in scheduler.quarantine.told().values()]
    assert faults in ([], ["ValueError('a fault')"])


class OnceAway(TaskEngine):
    """A scheduler whose first tick finds no message queue."""

    was_away = False

    def call_script(self, project: str, callback: str, save: object) -> None:
        if callback == "_on_cronjob" and not self.was_away:
            self.was_away = True
            raise Unavailable("the message queue is away")
        super().call_script(project, callback, save)


def test_when_a_tick_cannot_be_sent_those_of_other_projects_stay_due(
    world: World, clock: Clock
) -> None:
    scheduler = world.scheduler(engine_class=OnceAway)
    for name in "ab":
        world.project(name)
        world.script_is_known(name, min_tick=60)
    scheduler.run_once()
    scheduler.run_once()
    clock.now += 61
    with pytest.raises(Unavailable):
        scheduler.script_calls.send_ticks()

    scheduler.script_calls.send_ticks()

    ticks = [each["project"] for each in world.dispatched() if each["taskid"] == "_on_cronjob"]
    assert ticks == ["b"]
