"""A window with room for all tasks does what pyspider's queue does, whatever is asked of it."""

import sys
import time
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyspider.scheduler.task_queue import TaskQueue

from pyspider_zk.scheduling.window import Window, WindowSize
from tests.support.clock import Clock

NAMES = "abcdefgh"
IDS = st.sampled_from(NAMES)


class WindowBesideStock(RuleBasedStateMachine):
    """A window and pyspider's queue, which are asked the same at the same times.

    No two requests have the same priority or time, so it is always clear what comes next.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.clock = pytest.MonkeyPatch(), Clock(1_000_000.0)
        self.patch.setattr(time, "time", self.clock)
        size = WindowSize()
        size.due = size.put_off = sys.maxsize
        self.window = Window(lambda: None, size)
        self.stock = TaskQueue()
        self.requests = 0

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(rate=st.sampled_from([1e9, 0.5]), burst=st.sampled_from([1e9, 3]))
    def limit(self, rate: float, burst: float) -> None:
        for each in (self.window, self.stock):
            each.bucket.rate, each.bucket.burst = rate, burst
            each.bucket.set(burst)

    @rule(
        taskid=IDS,
        priority=st.integers(-2, 2),
        delay=st.sampled_from([None, None, -50, -1, 1, 5, 50, 900]),
    )
    def put(self, taskid: str, priority: int, delay: float | None) -> None:
        self.requests += 1
        exetime = 0 if delay is None else self.clock.now + delay + self.requests / 1000
        self._both("put", taskid, priority + self.requests / 10_000, exetime)

    @rule(most=st.integers(1, 5))
    def take(self, most: int) -> None:
        one_by_one = [each for _ in range(most) if (each := self.stock.get()) is not None]
        assert self.window.take(most) == one_by_one

    @rule(taskid=IDS, how=st.sampled_from(["done", "delete"]))
    def end(self, taskid: str, how: str) -> None:
        self._both(how, taskid)

    @rule(seconds=st.sampled_from([0.5, 2, 60, TaskQueue.processing_timeout + 1]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.now += seconds
        self._both("check_update")

    def _both(self, method: str, *args: Any) -> None:
        assert getattr(self.window, method)(*args) == getattr(self.stock, method)(*args)

    @invariant()
    def both_hold_the_same(self) -> None:
        for place in ("priority_queue", "time_queue", "processing"):
            ours, theirs = getattr(self.window, place), getattr(self.stock, place)
            assert ours.qsize() == theirs.qsize()
            assert _told(ours.queue_dict) == _told(theirs.queue_dict)
        assert len(self.window) == len(self.stock)
        for name in NAMES:
            assert (name in self.window) is (name in self.stock)
            assert self.window.is_processing(name) is bool(self.stock.is_processing(name))


def _told(tasks: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {taskid: (task.priority, task.exetime) for taskid, task in tasks.items()}


TestWindowBesideStock = WindowBesideStock.TestCase
TestWindowBesideStock.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
