"""Requests for the settings of a script that does not answer are repeated."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.scheduling.cron import CATCH_UP, Cron
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.script_calls import INFO_LOOK, INFO_PAUSES, ScriptCalls
from tests.support.clock import Clock
from tests.support.world import SLOTS, World

Task = Callable[..., dict[str, Any]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ScriptCalls.__init__, "__defaults__", (made,))
    return made


def requested(world: World) -> int:
    return len(world.asked_for_settings())


def later(scheduler: SlotScheduler, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    scheduler.run_once()


def test_a_request_that_is_not_answered_is_repeated_later_and_later(
    world: World, clock: Clock
) -> None:
    world.project("p")
    scheduler = world.scheduler()
    later(scheduler, clock, 0)
    assert requested(world) == 1
    for pause in (*INFO_PAUSES, INFO_PAUSES[-1]):
        later(scheduler, clock, pause - 1)
        assert requested(world) == 0
        later(scheduler, clock, 1)
        assert requested(world) == 1


def test_who_was_answered_begins_anew(world: World, clock: Clock) -> None:
    # given two that were asked again
    world.project("p")
    world.project("q")
    scheduler = world.scheduler()
    later(scheduler, clock, 0)
    later(scheduler, clock, INFO_PAUSES[0])
    # when one answers, and later is to answer anew
    world.script_is_known("p")
    later(scheduler, clock, INFO_LOOK)
    later(scheduler, clock, INFO_LOOK)
    scheduler.engine.projects["p"].waiting_get_info = True
    scheduler.engine.attention.on_project("p")
    later(scheduler, clock, 0)
    requested(world)
    later(scheduler, clock, INFO_PAUSES[0])
    # then the other one waits for longer
    assert world.asked_for_settings() == ["p"]


def test_a_project_runs_though_the_first_answer_was_lost(
    world: World, task: Task, clock: Clock
) -> None:
    world.project("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    later(scheduler, clock, 0)
    assert requested(world) == 1

    later(scheduler, clock, INFO_PAUSES[0] - INFO_LOOK)
    assert requested(world) == 0
    later(scheduler, clock, INFO_LOOK)
    assert requested(world) == 1
    world.script_is_known("p")
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]
    later(scheduler, clock, INFO_PAUSES[-1])
    later(scheduler, clock, INFO_PAUSES[-1])
    assert requested(world) == 0


def test_a_script_that_could_not_answer_is_asked_again(world: World, clock: Clock) -> None:
    world.project("p")
    scheduler = world.scheduler()
    later(scheduler, clock, 0)
    world.script_told("p", process={"ok": False, "exception": "no module"}, save={})
    for _ in range(2):
        later(scheduler, clock, INFO_LOOK)
    assert requested(world) == 1
    later(scheduler, clock, INFO_PAUSES[0])
    assert requested(world) == 1
    world.script_is_known("p")
    scheduler.run_once()
    later(scheduler, clock, INFO_PAUSES[-1])
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
    later(after, clock, INFO_PAUSES[0])

    assert (first_request, requested(world)) == (1, 1)


def test_a_question_that_waits_to_be_sent_is_not_doubled(world: World, clock: Clock) -> None:
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    world.project("p")
    scheduler = world.scheduler()
    for _ in range(5):
        later(scheduler, clock, INFO_PAUSES[-1])

    assert len(scheduler.engine.dispatch.waiting) == 1


class Looked(dict[str, Any]):
    """A task that counts how often its id is looked at."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        self.looks += key == "taskid"
        return super().__getitem__(key)


def test_however_many_scripts_are_asked_again_what_waits_is_looked_at_once(
    world: World, clock: Clock
) -> None:
    for number in range(9):
        world.project(f"p{number}")
    scheduler = world.scheduler()
    for _ in range(2):
        later(scheduler, clock, 1)
    assert requested(world) == 9
    waiting = Looked(taskid="t", project="p0")
    scheduler.engine.dispatch.wait([waiting])
    clock.now += INFO_PAUSES[0]
    scheduler.script_calls.repeat_info_requests()

    assert (requested(world), waiting.looks) == (9, 1)


def test_a_script_that_stopped_is_not_asked(world: World, clock: Clock) -> None:
    world.project("p", status="STOP")
    scheduler = world.scheduler()
    for _ in range(3):
        later(scheduler, clock, INFO_PAUSES[-1])
    assert requested(world) == 0


NOON = 1_000_000_000


def counted_from(start: int) -> Cron:
    ticks = Cron()
    ticks.start("p", start)
    return ticks


@given(
    interval=st.integers(1, 90),
    steps=st.lists(st.integers(0, CATCH_UP), max_size=12),
    start=st.integers(NOON, NOON + 90),
)
def test_each_multiple_of_the_interval_comes_once_however_often_is_asked(
    interval: int, steps: list[int], start: int
) -> None:
    # given
    ticks = counted_from(start)
    now, sent = start, []
    # when
    for step in steps:
        now += step
        sent += ticks.due("p", interval, now)
    # then
    assert sent == [second for second in range(start + 1, now + 1) if second % interval == 0]


@given(interval=st.integers(1, 90), moments=st.lists(st.integers(NOON, NOON + 500), max_size=12))
def test_no_tick_comes_twice_though_the_clock_goes_back(interval: int, moments: list[int]) -> None:
    ticks = counted_from(NOON)
    sent = [tick for now in moments for tick in ticks.due("p", interval, now)]
    assert len(sent) == len(set(sent))


def test_a_new_owner_whose_clock_is_behind_repeats_nothing() -> None:
    # given
    former = counted_from(NOON)
    assert list(former.due("p", 10, NOON + 20)) == [NOON + 10, NOON + 20]
    taken_over = former.last("p")
    assert taken_over is not None
    new = counted_from(taken_over)
    # when its clock is 15 seconds behind
    early = new.due("p", 10, NOON + 5)
    late = new.due("p", 10, NOON + 30)
    # then
    assert [*early, *late] == [NOON + 30]


def test_a_clock_that_was_far_ahead_stops_no_project_for_long() -> None:
    ticks = counted_from(NOON + 10 * CATCH_UP)
    assert list(ticks.due("p", 10, NOON)) == []
    assert list(ticks.due("p", 10, NOON + 10)) == [NOON + 10]


def test_ticks_missed_longer_ago_than_the_limit_are_lost() -> None:
    ticks = counted_from(NOON)
    due = ticks.due("p", 600, NOON + 10 * CATCH_UP)
    assert len(due) == CATCH_UP // 600
    assert due[-1] <= NOON + 10 * CATCH_UP


def test_a_project_without_a_tick_misses_none_while_it_has_none() -> None:
    ticks = counted_from(NOON)
    assert not ticks.due("p", 0, NOON + 100)
    assert list(ticks.due("p", 10, NOON + 110)) == [NOON + 110]


def test_an_unknown_project_begins_at_now() -> None:
    assert not Cron().due("p", 1, NOON)


def test_a_dropped_project_begins_anew() -> None:
    ticks = counted_from(NOON)
    ticks.drop("p")
    assert ticks.last("p") is None
    assert not ticks.due("p", 1, NOON + 100)


def test_projects_are_counted_each_by_itself() -> None:
    ticks = counted_from(NOON)
    ticks.start("q", NOON + 5)
    assert list(ticks.due("p", 5, NOON + 10)) == [NOON + 5, NOON + 10]
    assert list(ticks.due("q", 5, NOON + 10)) == [NOON + 10]


def test_the_next_tick_is_the_one_that_comes_due_next() -> None:
    ticks = counted_from(NOON)
    assert ticks.next("p", 60) == NOON + 20  # noon is no multiple of a minute
    assert ticks.due("p", 60, NOON + 19) == range(0)
    assert list(ticks.due("p", 60, NOON + 20)) == [NOON + 20]
    assert ticks.next("p", 60) == NOON + 80


def test_a_count_that_has_begun_does_not_begin_again() -> None:
    ticks = counted_from(NOON)
    ticks.begin("p", NOON + 50)
    ticks.begin("other", NOON + 50)
    assert (ticks.last("p"), ticks.last("other")) == (NOON, NOON + 50)
