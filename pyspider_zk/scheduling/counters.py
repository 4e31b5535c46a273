"""Counters of what happens to tasks: pyspider's, by time window, and as values that move on."""

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pyspider.libs.counter import (
    BaseCounter,
    CounterManager,
    TimebaseAverageEventCounter,
    TimebaseAverageWindowCounter,
    TotalCounter,
)

from pyspider_zk.queues.history import ENDS, TIMES
from pyspider_zk.scheduling.heartbeat import ROWS_PER_BEAT

logger = logging.getLogger("scheduler")

WINDOWS = ("5m_time", "5m", "1h", "1d")
"""The counters that history feeds; ``all`` is counted from the task database instead."""

EVENTS = ("pending", "success", "retry", "failed", "fetch_time", "process_time")
"""All events that pyspider's scheduler counts. The list saves a search through all projects."""

LOGGED = ("pending", "success", "retry", "failed")
"""The counters that are logged each minute."""

LABELS = ("new", "success", "retry", "failed")
"""Their names in the log."""

NAMED = 5
"""Projects that are named as those with most failures."""


class FiveMinutes(NamedTuple):
    """How the tasks of five minutes ended.

    Attributes:
        ended: how many there are.
        failed: how many of them failed.
        worst: the projects with most of these.
    """

    ended: int = 0
    failed: int = 0
    worst: tuple[str, ...] = ()


# Times first: a counter appends them last, so a reader never finds a time without its value.
# Nobody reads a live one, which would remove the oldest of each in turn.
_SERIES = ("times", "events", "values")
_SCALARS = ("cache_value", "cache_event", "cache_start", "_first_data_time", "window_size")

Managers = Mapping[str, CounterManager]


def new_counters() -> dict[str, CounterManager]:
    """Return pyspider's counters, empty: its files of them are shared by a machine's schedulers."""
    return {
        "5m_time": CounterManager(partial(TimebaseAverageEventCounter, 30, 10)),
        "5m": CounterManager(partial(TimebaseAverageWindowCounter, 30, 10)),
        "1h": CounterManager(partial(TimebaseAverageWindowCounter, 60, 60)),
        "1d": CounterManager(partial(TimebaseAverageWindowCounter, 600, 144)),
        "all": CounterManager(TotalCounter),
    }


def dump_windows(managers: Managers, project: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a project's counters by window and event name."""
    return {
        window: {
            event: _dump(counter)
            for event in EVENTS
            if (counter := managers[window].counters.get((project, event))) is not None
        }
        for window in WINDOWS
    }


def load_windows(managers: Managers, project: str, dump: Mapping[str, Any]) -> None:
    """Replace a project's counters with dumped ones."""
    for window in WINDOWS:
        manager = managers[window]
        for event, values in dump.get(window, {}).items():
            manager.counters[(project, event)] = _made(manager, values)


def drop_counters(managers: Managers, project: str) -> None:
    """Forget a project's counters."""
    for manager in managers.values():
        for event in EVENTS:
            manager.counters.pop((project, event), None)


def read_counters(
    manager: CounterManager, value: str, names: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return ``sum`` or ``avg`` of the counters of all projects, or these, by name and event.

    Works on copies, because reading a counter trims it while the scheduler goes on counting. The
    mapping is copied whole, because listing its items may let another thread run in between.
    Threads: any.
    """
    result: dict[str, dict[str, Any]] = {}
    for key, live in manager.counters.copy().items():
        if names is not None and key[0] not in names:
            continue
        counter = _copy(live)
        if not counter.empty():
            result.setdefault(key[0], {})[key[1]] = getattr(counter, value)
    return result


def log_counters(managers: Managers, beat: Callable[[], None]) -> FiveMinutes:
    """Log what happened in five minutes, as pyspider does, in one pass, and return it in short.

    pyspider searches all counters again for each project: with a thousand projects that takes
    longer than a lease.

    Args:
        beat: shows that the loop runs.
    """
    sums: dict[str, dict[str, int]] = {}
    for count, ((project, event), counter) in enumerate(managers["5m"].counters.items()):
        if count % ROWS_PER_BEAT == 0:
            beat()
        sums.setdefault(project, dict.fromkeys(LOGGED, 0))
        if event in LOGGED:
            sums[project][event] = _copy(counter).sum
    logger.info(counter_log(sums))
    worst = heapq.nlargest(NAMED, ((each["failed"], name) for name, each in sums.items()))
    failed = sum(each["failed"] for each in sums.values())
    ended = failed + sum(each["success"] for each in sums.values())
    return FiveMinutes(ended, failed, tuple(name for count, name in worst if count))


def counter_log(sums: Mapping[str, Mapping[str, int]]) -> str:
    """Return pyspider's line about all projects, two that failed and the busiest ones."""
    total = {event: sum(each[event] for each in sums.values()) for event in LOGGED}
    fails = heapq.nlargest(2, ((each["failed"], name) for name, each in sums.items()))
    failed = [name for count, name in fails if count]
    most = heapq.nlargest(
        5 - len(failed),
        ((sum(each.values()), name) for name, each in sums.items() if name not in failed),
    )
    shown = [name for _, name in most] + failed
    projects = (f" {name}:{','.join(str(sums[name][event]) for event in LOGGED)}" for name in shown)
    totals = ",".join(
        f"{label}:{total[event]}" for label, event in zip(LABELS, LOGGED, strict=True)
    )
    return f"in 5m: {totals}{''.join(projects)}"


def _dump(counter: BaseCounter) -> dict[str, Any]:
    state = vars(counter)
    series = {name: list(state[name]) for name in _SERIES if name in state}
    scalars = {name: state[name] for name in _SCALARS if name in state}
    return {**series, **scalars}


def _copy(live: BaseCounter) -> BaseCounter:
    """Return a copy of a counter; the dashboard reads all of them, so this must be quick."""
    state = dict(vars(live))
    for name in _SERIES:
        if name in state:
            state[name] = state[name].copy()
    counter = object.__new__(type(live))
    vars(counter).update(state)
    return counter


def _made(manager: CounterManager, values: Mapping[str, Any]) -> BaseCounter:
    counter = manager.cls()
    for name in _SERIES:
        if hasattr(counter, name):
            getattr(counter, name).extend(values.get(name, ()))
    for name in _SCALARS:
        if hasattr(counter, name) and name in values:
            setattr(counter, name, values[name])
    return counter


NEW: Final = "new"
DONE: Final = "done"
FAILED: Final = "failed"
RETRIED: Final = "retried"
RESTARTED: Final = "restarted"
RESTARTED_DONE: Final = "restarted after success"
RESTARTED_FAILED: Final = "restarted after failure"

CHANGES: Mapping[str, tuple[str, Mapping[str, int]]] = MappingProxyType(
    {
        NEW: ("pending", {"pending": 1}),
        DONE: ("success", {"success": 1, "pending": -1}),
        FAILED: ("failed", {"failed": 1, "pending": -1}),
        RETRIED: ("retry", {}),
        RESTARTED: ("pending", {}),
        RESTARTED_DONE: ("pending", {"success": -1, "pending": 1}),
        RESTARTED_FAILED: ("pending", {"failed": -1, "pending": 1}),
    }
)
"""What pyspider counts of each change of a task: an event, and how the totals of its project move.

A task that was cancelled has left the totals long ago.
"""

RECENT = ("5m", "1h", "1d")
"""The windows that count events; ``all`` has the totals."""


LONGEST_TIME = 3600.0
"""Seconds of a fetch or a call that the history counts: anybody may report any time."""


class TaskCounts:
    """Counter of what happens to tasks. A change costs one addition, not one for each window.

    Threads: the scheduler loop only.

    Args:
        managers: pyspider's counters, by window.

    Attributes:
        events: how often each of pyspider's events was counted since the start, of all projects.
        unchanged: how many requests changed nothing, since the start.
    """

    def __init__(self, managers: Mapping[str, CounterManager]) -> None:
        self._managers = managers
        self._is_collecting = False
        self._changes: dict[tuple[str, str], int] = {}
        self._times: dict[tuple[str, str], list[float]] = {}
        self._new: Counter[tuple[str, str]] = Counter()
        self.events: Counter[str] = Counter()
        self.unchanged = 0

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add what the block counts to the counters at its end."""
        self._is_collecting = True
        try:
            yield
        finally:
            self._is_collecting = False
            self._add_up()

    def count(self, project: str, change: str) -> None:
        """Count a change of a task, one of ``CHANGES``."""
        key = project, change
        self._changes[key] = self._changes.get(key, 0) + 1
        if not self._is_collecting:
            self._add_up()

    def time(self, project: str, event: str, seconds: float) -> None:
        """Count how long a fetch or a call of a script took.

        Args:
            event: ``fetch_time`` or ``process_time``.
        """
        self._times.setdefault((project, event), []).append(seconds)
        if not self._is_collecting:
            self._add_up()

    def take_new(self) -> Counter[tuple[str, str]]:
        """Return what was counted since the last call, by project and the history's measure."""
        new, self._new = self._new, Counter()
        return new

    def _add_up(self) -> None:
        changes, self._changes = self._changes, {}
        times, self._times = self._times, {}
        for (project, change), number in changes.items():
            event, moves = CHANGES[change]
            self.events[event] += number
            if event in ENDS:
                self._new[project, event] += number
            for window in RECENT:
                self._managers[window].event((project, event), number)
            for name, sign in moves.items():
                self._managers["all"].event((project, name), sign * number)
        averages = self._managers["5m_time"]
        for key, each in times.items():
            averages.event(key, sum(each))
            averages.counters[key].cache_event += len(each) - 1  # that was one
            project, event = key
            microseconds = round(1e6 * sum(min(LONGEST_TIME, max(0.0, one)) for one in each))
            self._new.update({key: microseconds, (project, TIMES[event]): len(each)})
