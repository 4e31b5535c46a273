"""Counters of pyspider's time windows as plain values, so that they survive a change of owner."""

import heapq
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyspider.libs.counter import BaseCounter, CounterManager

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

# Times first: a counter appends them last, so a reader never finds a time without its value.
# Nobody reads a live one, which would remove the oldest of each in turn.
_SERIES = ("times", "events", "values")
_SCALARS = ("cache_value", "cache_event", "cache_start", "_first_data_time", "window_size")

Managers = Mapping[str, CounterManager]


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


def read_counters(manager: CounterManager, value: str) -> dict[str, dict[str, Any]]:
    """Return ``sum`` or ``avg`` of all counters, by project and event name.

    Works on copies, because reading a counter trims it while the scheduler goes on counting. The
    mapping is copied whole, because listing its items may let another thread run in between.
    Threads: any.
    """
    result: dict[str, dict[str, Any]] = {}
    for key, live in manager.counters.copy().items():
        counter = _copy(live)
        if not counter.empty():
            result.setdefault(key[0], {})[key[1]] = getattr(counter, value)
    return result


def log_counters(managers: Managers, beat: Callable[[], None]) -> None:
    """Log what happened in five minutes, as pyspider does, in one pass over the counters.

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
