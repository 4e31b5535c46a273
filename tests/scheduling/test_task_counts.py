"""What is counted in a round adds up to what pyspider counts one by one."""

from contextlib import nullcontext, suppress

import pytest
from pyspider.libs.counter import CounterManager
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.scheduling.counters import read_counters
from pyspider_zk.scheduling.task_counts import DONE, NEW, RESTARTED_DONE, TaskCounts


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
