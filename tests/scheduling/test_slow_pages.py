"""A page that may take longer than pyspider's ten minutes is not fetched twice meanwhile."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted

Task = dict[str, Any]
USUAL = 600.0
SLOW = 3000
"""Seconds that the slow page may take."""


class SlowCrawl:
    """A scheduler of a project ``p``, by a clock of its own."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, **info: Any) -> None:
        self._clock = Clock(1_700_000_000.0)
        monkeypatch.setattr(time, "time", self._clock)
        self._world = world
        world.project("p")
        world.script_is_known("p", **info)
        self._scheduler: SlotScheduler = world.scheduler()
        self.later(1)

    def asked(self, *tasks: Task) -> list[str]:
        """Request tasks; return what is sent."""
        self._world.new(*tasks)
        return self.later(3)

    def later(self, seconds: float) -> list[str]:
        """Return what is sent in so many seconds, of which the last three have a round each."""
        for passed in (max(0, seconds - 2), 1, 1):
            self._clock.now += passed
            self._scheduler.run_once()
        return [each["taskid"] for each in self._world.dispatched()]

    def set_back(self, seconds: float) -> None:
        """Set the clock back."""
        self._clock.now -= seconds
        self._scheduler.run_once()

    def move(self) -> None:
        """Let another owner take the slots over, in a planned move."""
        self._scheduler.handover.give_up_all(SoleOwner(SLOTS), planned=True)
        self._scheduler = self._world.scheduler(granted(2))


@pytest.fixture
def crawl(world: World, monkeypatch: pytest.MonkeyPatch) -> SlowCrawl:
    return SlowCrawl(world, monkeypatch)


@pytest.fixture
def slow(task: Callable[..., Task]) -> Task:
    return {**task("p", "slow"), "fetch": {"timeout": SLOW}}


@pytest.mark.parametrize(
    "parts",
    [
        {"fetch": {"timeout": SLOW}},
        {"fetch": {"connect_timeout": SLOW}},
        {"fetch": {}, "process": {"callback": "page", "process_time_limit": SLOW}},
        {"fetch": {"timeout": SLOW, "connect_timeout": None}},
    ],
)
def test_a_task_in_flight_may_take_what_it_asks_for(
    crawl: SlowCrawl, slow: Task, parts: Task
) -> None:
    assert crawl.asked({**slow, **parts}) == ["slow"]
    assert crawl.later(SLOW + 60) == []
    assert crawl.later(USUAL) == ["slow"]


def test_so_may_one_whose_project_asks_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch, slow: Task
) -> None:
    crawl = SlowCrawl(world, monkeypatch, crawl_config={"timeout": SLOW})
    assert crawl.asked({**slow, "fetch": {}}) == ["slow"]
    assert crawl.later(SLOW + 60) == []


@pytest.mark.parametrize("timeout", [9, 120, "3000", None, -1, float("nan"), True])
def test_others_count_as_lost_after_ten_minutes(
    crawl: SlowCrawl, slow: Task, timeout: object
) -> None:
    assert crawl.asked({**slow, "fetch": {"timeout": timeout}}) == ["slow"]
    assert crawl.later(USUAL - 10) == []
    assert crawl.later(20) == ["slow"]


@pytest.mark.parametrize("timeout", [1e9, float("inf")])
def test_one_that_may_take_for_ever_is_given_up_in_a_day(
    crawl: SlowCrawl, slow: Task, timeout: float
) -> None:
    assert crawl.asked({**slow, "fetch": {"timeout": timeout}}) == ["slow"]
    assert crawl.later(24 * 3600 - 10) == []
    assert crawl.later(20) == ["slow"]


def test_the_time_of_one_that_waits_for_room_begins_when_it_is_sent(
    crawl: SlowCrawl, slow: Task, world: World
) -> None:
    world.fetcher.maxsize = 2
    others = [{**slow, "taskid": name} for name in ("one", "two")]
    assert crawl.asked(*others, slow) == ["one", "two"]
    assert crawl.later(300) == ["slow"]
    world.finish(others[0])
    world.finish(others[1])
    assert crawl.later(SLOW + USUAL - 200) == []
    assert crawl.later(USUAL) == ["slow"]


def test_the_time_counts_anew_when_it_is_sent_anew(
    crawl: SlowCrawl, slow: Task, world: World
) -> None:
    assert crawl.asked(slow) == ["slow"]
    world.finish(slow)
    again = {**slow, "fetch": {"timeout": 9}, "schedule": {"force_update": True}}
    assert crawl.asked(again) == ["slow"]
    assert crawl.later(USUAL + 10) == ["slow"]


def test_it_may_take_its_time_under_the_next_owner(crawl: SlowCrawl, slow: Task) -> None:
    usual = {**slow, "taskid": "usual", "fetch": {}}
    assert crawl.asked(slow, usual) == ["slow", "usual"]
    assert crawl.later(300) == []
    crawl.move()
    assert crawl.later(USUAL) == ["usual"]
    assert "slow" not in crawl.later(SLOW - USUAL)
    assert "slow" in crawl.later(USUAL)


def test_it_may_take_its_time_though_the_clock_is_set_back(crawl: SlowCrawl, slow: Task) -> None:
    usual = {**slow, "taskid": "usual", "fetch": {}}
    assert crawl.asked(slow, usual) == ["slow", "usual"]
    crawl.set_back(3600)
    assert crawl.later(USUAL + 10) == ["usual"]
    assert "slow" not in crawl.later(SLOW - USUAL)
    assert "slow" in crawl.later(USUAL)
