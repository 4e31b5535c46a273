"""pyspider's time-window counters as plain values, so that they survive a change of owner."""

from collections.abc import Mapping
from typing import Any

from pyspider.libs.counter import BaseCounter, CounterManager

WINDOWS = ("5m_time", "5m", "1h", "1d")
"""The counters that history feeds; ``all`` is counted from the task database instead."""

_SERIES = ("values", "times", "events")
_SCALARS = ("cache_value", "cache_event", "cache_start", "_first_data_time", "window_size")

Managers = Mapping[str, CounterManager]


def dump_windows(managers: Managers, project: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a project's counters by window and event name."""
    return {
        window: {
            key[1]: _dump(counter)
            for key, counter in list(managers[window].counters.items())
            if key[0] == project and len(key) == 2
        }
        for window in WINDOWS
    }


def load_windows(managers: Managers, project: str, dump: Mapping[str, Any]) -> None:
    """Put dumped counters in place of a project's own."""
    for window in WINDOWS:
        manager = managers[window]
        for event, values in dump.get(window, {}).items():
            counter = manager.cls()
            _load(counter, values)
            manager.counters[(project, event)] = counter


def drop_counters(managers: Managers, project: str) -> None:
    """Forget a project's counters."""
    for manager in managers.values():
        del manager[project]


def read_counters(manager: CounterManager, value: str) -> dict[str, dict[str, Any]]:
    """Return ``sum`` or ``avg`` of all counters, by project and event name.

    Works on a copy of the keys: the scheduler adds counters while others read them.
    """
    result: dict[str, dict[str, Any]] = {}
    for key, counter in list(manager.counters.items()):
        if not counter.empty():
            result.setdefault(key[0], {})[key[1]] = getattr(counter, value)
    return result


def _dump(counter: BaseCounter) -> dict[str, Any]:
    series = {name: list(getattr(counter, name)) for name in _SERIES if hasattr(counter, name)}
    scalars = {name: getattr(counter, name) for name in _SCALARS if hasattr(counter, name)}
    return {**series, **scalars}


def _load(counter: BaseCounter, values: Mapping[str, Any]) -> None:
    for name in _SERIES:
        if hasattr(counter, name):
            getattr(counter, name).extend(values.get(name, ()))
    for name in _SCALARS:
        if hasattr(counter, name) and name in values:
            setattr(counter, name, values[name])
