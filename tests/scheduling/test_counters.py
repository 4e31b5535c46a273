"""Counters survive a change of owner, and reading them disturbs nobody."""

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspider.libs import counter
from pyspider.libs.counter import CounterManager
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.queues.codec import decode, encode
from pyspider_zk.scheduling.counters import (
    DONE,
    EVENTS,
    NEW,
    RESTARTED_DONE,
    WINDOWS,
    TaskCounts,
    drop_counters,
    dump_windows,
    load_windows,
    log_counters,
    read_counters,
)

Managers = Mapping[str, CounterManager]


class CounterClock:
    """The time as pyspider's counters see it."""

    now = 1_000_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[CounterClock]:
    clock, real = CounterClock(), counter.time
    counter.time = clock
    yield clock
    counter.time = real


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("counters"))


def stock_managers(folder: str) -> Managers:
    """Return the counters of pyspider's own scheduler."""
    made: Managers = Scheduler(None, None, None, None, None, data_path=folder)._cnt
    return made


@given(
    events=st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 5), st.floats(0, 500)), max_size=40
    )
)
def test_counters_are_the_same_after_the_wire(
    clock: CounterClock, folder: str, events: Any
) -> None:
    # given
    old, new = stock_managers(folder), stock_managers(folder)
    for event, value, pause in events:
        clock.now += pause
        for window in WINDOWS:
            old[window].event(("p", event), value)
    # when
    load_windows(new, "p", decode(encode(dump_windows(old, "p"))))
    # then
    for window in WINDOWS:
        for value in ("sum", "avg"):
            assert read_counters(new[window], value) == read_counters(old[window], value)
            assert read_counters(new[window], value) == old[window].to_dict(value)


def test_a_counter_goes_on_where_the_former_owner_stopped(clock: CounterClock, folder: str) -> None:
    # given
    old, new = stock_managers(folder), stock_managers(folder)
    old["5m"].event(("p", "success"), 3)
    load_windows(new, "p", dump_windows(old, "p"))
    # when
    clock.now += 60
    new["5m"].event(("p", "success"), 2)
    # then
    assert new["5m"][("p")]["success"].sum == 5


def test_only_the_projects_own_counters_are_dumped_and_dropped(folder: str) -> None:
    # given
    own = stock_managers(folder)
    for window in own.values():
        for project in ("p", "q"):
            window.event((project, "success"), 1)
    # then
    assert dump_windows(own, "p")["1h"].keys() == {"success"}
    # when
    drop_counters(own, "p")
    # then
    assert {name for window in own.values() for name in window} == {"q"}


def test_a_record_of_another_version_is_taken_as_far_as_it_goes(folder: str) -> None:
    own = stock_managers(folder)
    load_windows(own, "p", {"5m": {"success": {"cache_value": 2, "cache_start": CounterClock.now}}})
    assert dump_windows(own, "p")["1h"] == {}
    assert own["5m"].counters["p", "success"].cache_value == 2


def test_reading_leaves_the_counters_as_they_are(clock: CounterClock, folder: str) -> None:
    # given a counter that pyspider would trim when it is read
    own = stock_managers(folder)
    own["5m"].event(("p", "success"), 1)
    clock.now += 10_000
    before = dump_windows(own, "p")
    # when
    read = read_counters(own["5m"], "sum")
    # then
    assert read == {}
    assert dump_windows(own, "p") == before


class LoggedMeanwhile(deque[float]):
    """Times of a counter: while they are copied, the loop logs what it counted."""

    def __init__(self, times: deque[float], log: Callable[[], None]) -> None:
        super().__init__(times)
        self._log = log

    def copy(self) -> deque[float]:
        log, self._log = self._log, lambda: None
        copied = deque(self)
        log()
        return copied


def test_counters_may_be_read_while_the_loop_logs_them(clock: CounterClock, folder: str) -> None:
    live = stock_managers(folder)
    for _ in range(3):
        live["5m"].event(("p", "success"), 1)
        clock.now += 11
    counter = live["5m"].counters["p", "success"]
    counter.times = LoggedMeanwhile(counter.times, lambda: log_counters(live, lambda: None))
    clock.now += 310

    assert read_counters(live["5m"], "sum") == {}


@pytest.mark.usefixtures("clock")
def test_what_five_minutes_brought_is_told_in_short(folder: str) -> None:
    live = stock_managers(folder)
    assert log_counters(live, lambda: None) == (0, 0, ())
    for project, event, count in (("p", "success", 5), ("p", "failed", 1), ("q", "failed", 3)):
        live["5m"].event((project, event), count)
    live["5m"].event(("r", "retry"), 9)
    assert log_counters(live, lambda: None) == (9, 4, ("q", "p"))


def test_all_that_pyspider_counts_is_known() -> None:
    counted = re.findall(
        r"\((?:task\['project'\]|project|project_name), '(\w+)'\)", inspect.getsource(Scheduler)
    )
    assert set(counted) == set(EVENTS)


@pytest.fixture
def managers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CounterManager]:
    """Give the counters of pyspider's own scheduler."""
    folder = str(tmp_path_factory.mktemp("counters"))
    made: dict[str, CounterManager] = Scheduler(*[None] * 5, data_path=folder)._cnt
    return made


@pytest.mark.parametrize("is_round", [True, False])
def test_changes_are_counted_in_all_windows(
    managers: dict[str, CounterManager], is_round: bool
) -> None:
    counts = TaskCounts(managers)
    with counts.collecting() if is_round else nullcontext():
        for change in (NEW, NEW, NEW, DONE, DONE, RESTARTED_DONE):
            counts.count("p", change)
        counts.count("q", NEW)
    for window in ("5m", "1h", "1d"):
        assert read_counters(managers[window], "sum") == {
            "p": {"pending": 4, "success": 2},
            "q": {"pending": 1},
        }
    assert read_counters(managers["all"], "sum") == {
        "p": {"pending": 2, "success": 1},
        "q": {"pending": 1},
    }
    assert counts.events == {"pending": 5, "success": 2}


def test_a_round_counts_once_if_it_fails(managers: dict[str, CounterManager]) -> None:
    counts = TaskCounts(managers)
    with suppress(ZeroDivisionError), counts.collecting():
        counts.count("p", NEW)
        raise ZeroDivisionError
    with counts.collecting():
        pass
    assert read_counters(managers["5m"], "sum") == {"p": {"pending": 1}}


@pytest.mark.parametrize("is_round", [True, False])
def test_times_are_averaged_one_by_one(managers: dict[str, CounterManager], is_round: bool) -> None:
    counts = TaskCounts(managers)
    with counts.collecting() if is_round else nullcontext():
        for seconds in (1.0, 2.0, 6.0):
            counts.time("p", "fetch_time", seconds)
        counts.time("p", "process_time", 4.0)
    averages = {"p": {"fetch_time": 3.0, "process_time": 4.0}}
    assert read_counters(managers["5m_time"], "avg") == averages
