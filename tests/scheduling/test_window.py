"""A window never loses a pending task, gives none twice, and gives the most urgent ones first."""

import bisect
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspider_zk.scheduling.unloaded import Scan
from pyspider_zk.scheduling.window import HeapEntry, TaskHeap, Window, WindowSize

FUTURE = 1e6  # seconds from now


class WindowClock:
    """The wall clock as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> WindowClock:
    clock = WindowClock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@dataclass
class PendingRows:
    """Rows of pending tasks: priority and time by task id, read in pages in the order of ids."""

    pending: dict[int, tuple[float, float]] = field(default_factory=dict)

    def page(self, after: int | None, limit: int) -> tuple[list[int], int | None]:
        ids = sorted(self.pending)
        begin = 0 if after is None else bisect.bisect_right(ids, after)
        found = ids[begin : begin + limit]
        return found, found[-1] if begin + limit < len(ids) else None


@dataclass
class WindowedProject:
    """A window above rows, as a scheduler keeps them: what is put is written as well."""

    limit: int
    rows: PendingRows = field(default_factory=PendingRows)
    taken: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = WindowSize()
        size.due = size.put_off = self.limit
        self.window = Window(lambda: None, size)
        self.window.rate = self.window.burst = 1e9
        self.window.bucket.bucket = 1e9

    def new(self, taskid: int, priority: float, exetime: float = 0) -> None:
        self.rows.pending[taskid] = (priority, exetime)
        self.window.put(taskid, priority, exetime)

    def take_over(self) -> "WindowedProject":
        """Return the same project in the memory of another scheduler."""
        after = WindowedProject(self.limit, self.rows, self.taken)
        after.window.unloaded.add_unknown()
        return after

    def load_page(self, size: int) -> bool:
        """Load a page, if there is something to load; return whether there was."""
        scan: Scan | None = self.window.next_scan()
        if scan is None:
            return False
        limit = min(size, max(1, self.window.room)) if scan.is_of_due else size
        found, last = self.rows.page(scan.after, limit)
        for taskid in found:
            self.window.load(scan, taskid, *self.rows.pending[taskid])
        self.window.passed(scan, last)
        return True

    def take(self) -> int | None:
        """Send the next task and finish it; return its id."""
        self.window.check_update()
        taskid = next(iter(self.window.take(1)), None)
        if taskid is not None:
            assert taskid in self.rows.pending, "sent twice"
            del self.rows.pending[taskid]
            self.window.done(taskid)
            self.taken.append(taskid)
        return taskid

    def take_all(self) -> list[int]:
        """Send all that is due, loading whenever there is room."""
        found: list[int] = []
        while True:
            while self.load_page(self.limit):
                assert self.window.priority_queue.qsize() <= 2 * self.limit + 1
            taskid = self.take()
            if taskid is None:
                return found
            found.append(taskid)


def test_a_window_holds_a_bounded_number_of_tasks(clock: WindowClock) -> None:
    project = WindowedProject(limit=10)
    for taskid in range(500):
        project.new(taskid, taskid % 7, clock.now + FUTURE if taskid % 2 else 0)
    assert project.window.priority_queue.qsize() <= 20
    assert project.window.time_queue.qsize() <= 20
    assert len(project.window) == 500


def test_the_most_urgent_come_first_wherever_they_stand() -> None:
    project, chance = WindowedProject(limit=10), Random(3)  # noqa: S311 - no secret
    for taskid in range(300):
        project.new(taskid, chance.randrange(5))
    given = {taskid: priority for taskid, (priority, _) in project.rows.pending.items()}
    found = [given[taskid] for taskid in project.take_all()]
    assert found == sorted(found, reverse=True)
    assert len(found) == 300


def test_after_a_takeover_the_most_urgent_come_first_once_all_rows_were_seen() -> None:
    project, chance = WindowedProject(limit=10), Random(3)  # noqa: S311 - no secret
    for taskid in range(300):
        project.new(taskid, chance.randrange(5))
    given = {taskid: priority for taskid, (priority, _) in project.rows.pending.items()}
    after = project.take_over()
    while after.load_page(7) and after.window.next_scan() is not None:
        assert after.window.priority_queue.qsize() <= 21
    found = [given[taskid] for taskid in after.take_all()]
    assert found == sorted(found, reverse=True)
    assert len(found) == 300


def test_less_urgent_tasks_that_come_later_keep_nobody_waiting() -> None:
    project = WindowedProject(limit=10)
    for taskid in range(100):
        project.new(taskid, 9)
    found = []
    for taskid in range(100, 300):
        project.new(taskid, 1)
        project.load_page(10)
        found += [project.take()]
    assert sorted(found[:100]) == list(range(100))


def test_later_tasks_that_are_put_off_later_make_nobody_late(clock: WindowClock) -> None:
    project = WindowedProject(limit=10)
    for taskid in range(100):
        project.new(taskid, 0, clock.now + 10 + taskid)
    for taskid in range(100, 200):
        project.new(taskid, 0, clock.now + 10 + taskid)
        clock.now += 1
        project.load_page(10)
    clock.now += 9.5
    assert sorted(project.take_all()) == list(range(100))


def test_a_trickle_of_new_tasks_keeps_no_scan_going(clock: WindowClock) -> None:
    """A scan passes the many that are put off; new tasks do not wait for it, nor make it longer."""
    project = WindowedProject(limit=10)
    for taskid in range(1000):
        project.new(taskid, 0, clock.now + FUTURE + taskid)
    for taskid in range(1000, 1025):
        project.new(taskid, 0)
    busy = 0
    for turn in range(3000):
        if turn % 20 == 0:
            project.new(2000 + turn, 0)
        project.load_page(10)
        while project.take() is not None:
            pass
        busy += turn >= 2000 and project.window.is_short
    assert busy == 0


def test_tasks_that_were_put_off_come_though_others_are_always_due(clock: WindowClock) -> None:
    project = WindowedProject(limit=10)
    for taskid in range(1000):
        project.new(taskid, 9, clock.now + 100)
    for taskid in range(1000, 1025):
        project.new(taskid, 0)
    for turn in range(6000):
        clock.now += 0.1
        if turn % 20 == 0:
            project.new(2000 + turn, 0)
        project.load_page(10)
        while project.take() is not None:
            pass
    assert set(range(1000)) <= set(project.taken)


def test_less_urgent_tasks_come_while_few_more_urgent_ones_keep_coming() -> None:
    project = WindowedProject(limit=10)
    for taskid in range(1000):
        project.new(taskid, 0)
    for taskid in range(1000, 1025):
        project.new(taskid, 1)
    for turn in range(5000):
        if turn % 20 == 0:
            project.new(2000 + turn, 1)
        project.load_page(10)
        for _ in range(10):
            project.take()
    assert set(range(1000)) <= set(project.taken)


def test_a_clock_that_is_adjusted_a_little_loses_nothing(clock: WindowClock) -> None:
    """What was due, and left out, is looked for among the due, though its time is to come again."""
    project = WindowedProject(limit=2)
    for taskid in range(20):
        project.new(taskid, 0, clock.now - 0.001)
    clock.now -= 0.01
    found = project.take_all()
    clock.now += 1
    assert sorted(found + project.take_all()) == list(range(20))


def test_a_window_is_shortened_under_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others read it under that lock: the numbers of the web UI."""
    window = WindowedProject(limit=2).window
    owned: list[bool] = []
    pop = TaskHeap.pop

    def watched(queue: TaskHeap, taskid: str) -> HeapEntry | None:
        owned.append(window.mutex._is_owned())  # type: ignore[attr-defined]
        return pop(queue, taskid)

    monkeypatch.setattr(TaskHeap, "pop", watched)
    for number in range(6):
        window.put(f"t{number}")
    assert owned
    assert all(owned)


def test_tasks_that_are_put_back_come_again_in_their_order() -> None:
    window = WindowedProject(limit=10).window
    for taskid in "abcd":
        window.put(taskid)
    for taskid in window.take(2):
        assert taskid
        window.put_back(taskid)
    assert window.take(4) == list("abcd")


def test_what_is_put_off_waits_only_once_it_is_due(clock: WindowClock) -> None:
    window = WindowedProject(limit=10).window
    window.put("b", exetime=clock.now + FUTURE)
    assert window.priority_queue.oldest is None
    window.put("a", exetime=1.0)
    assert window.priority_queue.oldest == clock.now
    clock.now += 2 * FUTURE
    window.check_update()
    window.delete("a")
    assert window.priority_queue.oldest == clock.now


def test_a_window_that_is_empty_for_sure_says_so() -> None:
    project = WindowedProject(limit=10)
    for taskid in range(100):
        project.new(taskid, 0)
    assert len(project.take_all()) == 100
    assert len(project.window) == 0
    assert not project.window.unloaded


def test_tasks_that_were_put_off_come_when_they_are_due(clock: WindowClock) -> None:
    project = WindowedProject(limit=10)
    for taskid in range(100):
        project.new(taskid, 0, clock.now + 1 + (taskid * 37) % 100)
    found = []
    for _ in range(101):
        clock.now += 1
        found += project.take_all()
    assert sorted(found) == list(range(100))
    assert found == sorted(found, key=lambda taskid: (taskid * 37) % 100)


def test_many_priorities_are_told_apart_only_so_far() -> None:
    project = WindowedProject(limit=10)
    for taskid in range(1000):
        project.new(taskid, (taskid * 7) % 1000)
    assert len(project.window.unloaded._levels) <= 64
    assert sorted(project.take_all()) == list(range(1000))


ODD = [float("nan"), float("inf"), float("-inf"), 2**70, -(2**70), 10**400, -(10**400), 1e301, True]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_priorities_lose_nothing(odd: Any) -> None:
    project = WindowedProject(limit=5)
    for taskid in range(100):
        project.new(taskid, odd if taskid % 3 else taskid % 5)
    assert sorted(project.take_over().take_all()) == list(range(100))


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_times_lose_nothing(clock: WindowClock, odd: Any) -> None:
    project = WindowedProject(limit=5)
    for taskid in range(100):
        project.new(taskid, 0, odd if taskid % 3 else 0)
    after = project.take_over()
    after.take_all()
    is_due = not odd > clock.now
    assert (len(after.window) == 0) is is_due
    assert len(after.rows.pending) == (0 if is_due else 66)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["new", "new", "put off", "take", "page", "page", "later", "move", "stray"]
        ),
        st.integers(0, 4),
        st.integers(1, 30),
    ),
    max_size=150,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(limit=st.integers(1, 6), steps=STEPS)
def test_whatever_happens_each_task_comes_once(
    clock: WindowClock,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    steps: list[tuple[str, int, int]],
) -> None:
    monkeypatch.setattr("pyspider_zk.scheduling.unloaded.MOST_LEVELS", 3)
    project, number = WindowedProject(limit), 0
    for what, priority, much in steps:
        if what == "new":
            for _ in range(much):
                number += 1
                project.new((number * 7919) % 100_003, priority)
        elif what == "put off":
            for _ in range(much):
                number += 1
                project.new((number * 7919) % 100_003, priority, clock.now + much * priority)
        elif what == "take":
            for _ in range(much):
                project.take()
        elif what == "page":
            project.load_page(much)
        elif what == "again":  # a pending task gets another priority, or another time
            for taskid in sorted(project.rows.pending)[:much]:
                exetime = clock.now + priority if much % 2 else 0
                if taskid not in project.window:
                    project.window.unloaded.take_one()
                project.new(taskid, priority, exetime)
        elif what == "back":  # by seconds, or by less than is noticed
            clock.now -= much if much % 2 else 0.01
            if much % 2:
                project.window.follow_clock()
        elif what == "stray":  # a former owner writes a row that nobody else knows of
            number += 1
            project.rows.pending[(number * 7919) % 100_003] = (priority, 0)
            project.window.unloaded.add_unknown()
        elif what == "later":
            clock.now += much
        else:
            project = project.take_over()
        assert project.window.priority_queue.qsize() <= 4 * limit + 2
        assert bool(len(project.window)) or not project.rows.pending
    clock.now += FUTURE
    project.take_all()
    assert project.rows.pending == {}
    assert len(set(project.taken)) == len(project.taken) == number
    assert len(project.window) == 0
