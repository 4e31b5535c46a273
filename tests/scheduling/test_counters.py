"""Counters survive a change of owner, and reading them disturbs nobody."""

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspider.libs import counter
from pyspider.libs.counter import CounterManager
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.queues.codec import decode, encode
from pyspider_zk.scheduling.counters import (
    EVENTS,
    WINDOWS,
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


def managers(folder: str) -> Managers:
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
    old, new = managers(folder), managers(folder)
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
    old, new = managers(folder), managers(folder)
    old["5m"].event(("p", "success"), 3)
    load_windows(new, "p", dump_windows(old, "p"))
    # when
    clock.now += 60
    new["5m"].event(("p", "success"), 2)
    # then
    assert new["5m"][("p")]["success"].sum == 5


def test_only_the_projects_own_counters_are_dumped_and_dropped(folder: str) -> None:
    # given
    own = managers(folder)
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
    own = managers(folder)
    load_windows(own, "p", {"5m": {"success": {"cache_value": 2, "cache_start": CounterClock.now}}})
    assert dump_windows(own, "p")["1h"] == {}
    assert own["5m"].counters["p", "success"].cache_value == 2


def test_reading_leaves_the_counters_as_they_are(clock: CounterClock, folder: str) -> None:
    # given a counter that pyspider would trim when it is read
    own = managers(folder)
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
    live = managers(folder)
    for _ in range(3):
        live["5m"].event(("p", "success"), 1)
        clock.now += 11
    counter = live["5m"].counters["p", "success"]
    counter.times = LoggedMeanwhile(counter.times, lambda: log_counters(live, lambda: None))
    clock.now += 310

    assert read_counters(live["5m"], "sum") == {}


def test_all_that_pyspider_counts_is_known() -> None:
    counted = re.findall(
        r"\((?:task\['project'\]|project|project_name), '(\w+)'\)", inspect.getsource(Scheduler)
    )
    assert set(counted) == set(EVENTS)
