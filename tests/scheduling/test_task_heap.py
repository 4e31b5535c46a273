"""A task heap gives tasks in pyspider's order, equals first-in first-out, and stays small."""

import itertools
import time
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyspider.scheduler.task_queue import InQueueTask, PriorityTaskQueue

from pyspider_zk.scheduling import window
from pyspider_zk.scheduling.window import SPARE_ENTRIES, HeapEntry, TaskHeap

IDS = st.sampled_from("abcdefgh")
PRIORITIES = st.sampled_from([-1, 0, 1, 2.5, True])
TIMES = st.sampled_from([0, 0, 0, -3.0, 5, 5.0, 7.5])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the present time, to be changed in place."""
    now = [100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def heap_of(*tasks: tuple[str, float, float]) -> TaskHeap:
    heap = TaskHeap(itertools.count())
    for task in tasks:
        heap.add(*task)
    return heap


def all_of(heap: TaskHeap) -> list[str]:
    return [heap.get_nowait().taskid for _ in range(heap.qsize())]


class HeapBesideStock(RuleBasedStateMachine):
    """A task heap and pyspider's queue, which are given the same.

    Which of equals is next only the heap tells, so pyspider's must have an equal one on top.
    Dead entries are dropped at once, early, or hardly ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.heap = heap_of()
        self.stock = PriorityTaskQueue()
        self.arrived: list[str] = []

    def teardown(self) -> None:
        self.patch.undo()

    @initialize(spare=st.sampled_from([-SPARE_ENTRIES, 0, SPARE_ENTRIES]))
    def keep_dead_entries(self, spare: int) -> None:
        self.patch.setattr(window, "SPARE_ENTRIES", spare)

    @rule(taskid=IDS, priority=PRIORITIES, exetime=TIMES)
    def put(self, taskid: str, priority: float, exetime: float) -> None:
        self.heap.add(taskid, priority, exetime)
        self.stock.put(InQueueTask(taskid, priority, exetime))
        if taskid not in self.arrived:
            self.arrived.append(taskid)

    @precondition(lambda self: self.arrived)
    @rule()
    def get(self) -> None:
        task = self.heap.get_nowait()
        top = self.stock.top
        assert not top < task
        assert not _stock_task(task) < top
        equals = [each for each in self.arrived if _are_equal(self.stock[each], top)]
        assert task.taskid == equals[0]
        self._forget(task.taskid)

    @precondition(lambda self: self.arrived)
    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        taskid = data.draw(st.sampled_from(self.arrived))
        assert self.heap.pop(taskid) is not None
        self._forget(taskid)

    @rule(taskid=IDS)
    def pop_what_may_not_be_here(self, taskid: str) -> None:
        if taskid not in self.arrived:
            assert self.heap.pop(taskid) is None

    def _forget(self, taskid: str) -> None:
        del self.stock[taskid]
        self.arrived.remove(taskid)

    @invariant()
    def both_hold_the_same(self) -> None:
        assert _held(self.heap) == _held(self.stock)
        assert self.heap.qsize() == self.stock.qsize()
        assert list(self.heap.queue_dict) == self.arrived
        for taskid in "abcdefgh":
            assert (taskid in self.heap) is (taskid in self.stock)

    @invariant()
    def both_have_equals_on_top(self) -> None:
        ours, theirs = self.heap.top, self.stock.top
        assert (ours is None) is (theirs is None)
        assert ours is None or _are_equal(_stock_task(ours), theirs)


def _held(tasks: TaskHeap | PriorityTaskQueue) -> dict[str, tuple[Any, Any]]:
    return {each.taskid: (each.priority, each.exetime) for each in tasks.queue_dict.values()}


def _stock_task(task: HeapEntry) -> InQueueTask:
    return InQueueTask(task.taskid, task.priority, task.exetime)


def _are_equal(one: InQueueTask, other: InQueueTask) -> bool:
    return not one < other and not other < one


TestHeapBesideStock = HeapBesideStock.TestCase
TestHeapBesideStock.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_tasks_due_at_once_come_by_priority_before_those_whose_time_came() -> None:
    heap = heap_of(("a", 0, 5), ("b", 9, 7), ("c", 1, 0), ("d", 2, 0))
    assert all_of(heap) == ["d", "c", "a", "b"]


def test_equals_come_first_in_first_out_also_if_one_is_put_again() -> None:
    heap = heap_of(("a", 1, 0), ("b", 2, 0), ("c", 2, 0), ("a", 2, 0), ("d", 2, 0))
    assert all_of(heap) == ["a", "b", "c", "d"]


def test_a_task_that_comes_back_by_its_number_is_where_it_was() -> None:
    heap = heap_of(("a", 0, 0), ("b", 0, 0))
    task = heap.get_nowait()
    heap.add(task.taskid, task.priority, 0, task.number)
    assert all_of(heap) == ["a", "b"]


def test_ids_that_cannot_be_compared_share_a_heap() -> None:
    heap = heap_of()
    for taskid in (1, "a", 2, "b"):
        heap.add(taskid, 0, 5.0)
    assert all_of(heap) == [1, "a", 2, "b"]


def test_tasks_that_are_deleted_leave_no_more_entries_than_others_and_some() -> None:
    heap = heap_of(*((f"t{number}", 0, 0) for number in range(1000)))
    for number in range(1000):
        heap.pop(f"t{number}")
        assert len(heap.queue) <= 2 * heap.qsize() + SPARE_ENTRIES


def test_a_task_that_is_put_again_and_again_leaves_few_entries() -> None:
    heap = heap_of()
    for priority in range(1000):
        heap.add("a", priority, 0)
        assert len(heap.queue) <= 3 + SPARE_ENTRIES
    assert heap.get_nowait().priority == 999


def test_tasks_that_end_in_the_order_in_which_they_came_leave_few_entries() -> None:
    heap = heap_of()
    for number in range(1000):
        heap.add(f"t{number}", 0, 1e9 + number)
        heap.pop(f"t{number - 10}")
        assert len(heap.queue) <= 2 * heap.qsize() + SPARE_ENTRIES + 1


def test_the_oldest_is_the_one_that_waits_longest_not_the_next_to_go(clock: list[float]) -> None:
    heap = heap_of()
    assert heap.oldest is None
    heap.add("unimportant", 0, 0)
    clock[0] = 101.0
    heap.add("urgent", 9, 0)
    assert heap.oldest == 100.0
    assert heap.get_nowait().taskid == "urgent"
    assert heap.oldest == 100.0
    assert heap.get_nowait().taskid == "unimportant"
    assert heap.oldest is None


def test_asking_again_for_a_task_does_not_make_it_younger(clock: list[float]) -> None:
    heap = heap_of(("a", 0, 0))
    clock[0] = 105.0
    heap.add("a", 3, 0)
    assert heap.oldest == 100.0
