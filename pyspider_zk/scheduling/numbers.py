"""Numbers about projects, computed for each request from what their owner has in memory."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from pyspider.libs.counter import BaseCounter, CounterManager

from pyspider_zk.errors import BadRequest
from pyspider_zk.scheduling.counters import read_counters
from pyspider_zk.scheduling.cron import tick_after
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.scheduler import SlotScheduler

MINUTES = 60
_ENDS = ("success", "failed")
_TRIES = ("success", "failed", "retry")
_NOTHING = {
    "pending": 0,
    "due": 0,
    "sent": 0,
    "due_since": None,
    "next_due": None,
    "paused": False,
    "cannot_start": None,
    "every": None,
    "next_tick": None,
}


class ProjectNumbers:
    """Numbers about the projects that one scheduler has in memory.

    Threads: any; data that changes as projects come and go is read under the project-set lock.
    """

    def __init__(self, slot_scheduler: SlotScheduler) -> None:
        self._engine = slot_scheduler.engine
        self._quarantine = slot_scheduler.quarantine
        self._cron = slot_scheduler.cron

    def project_numbers(self, names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the numbers of each project, or of these.

        ``pending`` tasks are in memory or stand in their rows alone. Of those in memory, ``due``
        wait only for the rate limit, the oldest since ``due_since``, and ``sent`` are with fetcher
        and processor; ``next_due``: when the next of the others is due.
        ``success`` and ``failed`` are those of the task database; ``hour`` has the last hour's.
        ``rate_now``: tries that ended per second, over five minutes.
        ``every``: seconds between the ticks of ``@every``, None if it has none; ``next_tick``: when
        the next one is due.
        ``cannot_start``: why its script does not run, None if it does, or nothing is known.
        ``quarantined``: why the project is in quarantine, None if it is not.

        Raises:
            BadRequest: these are not names.
        """
        wanted = None if names is None else _checked(names)
        quarantine = self._quarantine
        with self._engine.lock:
            known = self._engine.projects
            held = known.keys() if wanted is None else known.keys() & wanted
            numbers = {name: {**_queued(known[name]), **self._ticks(known[name])} for name in held}
        for name in quarantine.names():
            if wanted is None or name in wanted:
                numbers.setdefault(name, dict(_NOTHING))
        counters = self._engine.counters
        total, hour = (read_counters(counters[each], "sum", wanted) for each in ("all", "1h"))
        rates = read_counters(counters["5m"], "avg", wanted)
        for name, found in numbers.items():
            found |= {each: total.get(name, {}).get(each, 0) for each in _ENDS}
            found["quarantined"] = quarantine.reason(name)
            found["hour"] = {each: hour.get(name, {}).get(each, 0) for each in _TRIES}
            found["rate_now"] = sum(rates.get(name, {}).get(each, 0.0) for each in _TRIES)
        return numbers

    def _ticks(self, project: LoadedProject) -> dict[str, Any]:
        interval = int(project.min_tick) if project.active else 0
        last = self._cron.last(project.name)
        if not interval or last is None:
            return {"every": None, "next_tick": None}
        return {"every": interval, "next_tick": float(tick_after(last, interval))}

    def project_history(self, names: Collection[str]) -> dict[str, list[int]]:
        """Return for these projects how many tries ended in each of the last 60 minutes.

        Raises:
            BadRequest: these are not names.
        """
        return {
            name: [sum(each) for each in zip(*series.values(), strict=True)]
            for name, series in self._minutes(_checked(names)).items()
        }

    def throughput(self) -> dict[str, list[int]]:
        """Return the same for all projects together, by how the tries ended, the oldest first."""
        found = {event: [0] * MINUTES for event in _TRIES}
        for series in self._minutes().values():
            for event, minutes in series.items():
                found[event] = list(map(sum, zip(found[event], minutes, strict=True)))
        return found

    def _minutes(self, names: Collection[str] | None = None) -> dict[str, dict[str, list[int]]]:
        manager, now = self._engine.counters["1h"], time.time()
        found: dict[str, dict[str, list[int]]] = {}
        for project, event in manager.counters.copy():
            if event in _TRIES and (names is None or project in names):
                series = found.setdefault(project, {each: [0] * MINUTES for each in _TRIES})
                series[event] = _by_minute(manager, (project, event), now)
        return found


def _checked(names: object) -> set[str]:
    """Return names that somebody has sent, or raise ``BadRequest``."""
    if isinstance(names, list | tuple | set | frozenset) and all(
        isinstance(name, str) for name in names
    ):
        return set(names)
    raise BadRequest(f"names must be a list of names, not {names!r:.80}")


def _queued(project: LoadedProject) -> dict[str, Any]:
    """Return what a project's queue holds."""
    tasks = project.task_queue
    with tasks.mutex:
        first = tasks.time_queue.top  # it drops deleted tasks on the way: under the lock only
        return {
            "pending": len(tasks),
            "due": tasks.priority_queue.qsize(),
            "sent": tasks.processing.qsize(),
            "due_since": tasks.priority_queue.oldest,
            "next_due": None if first is None else float(first.exetime),
            "paused": project.pause.state is True,
            "cannot_start": project.cannot_start or None,
        }


def _by_minute(manager: CounterManager, key: tuple[str, str], now: float) -> list[int]:
    """Return what a counter counted in each of the last minutes.

    A counter keeps amounts with their start times; each covers a minute or more.
    """
    minutes = [0] * MINUTES
    counter: BaseCounter | None = manager.counters.get(key)
    for began, amount in _amounts(vars(counter) if counter else {}):
        age = int((now - began) // 60)
        if 0 <= age < MINUTES:
            minutes[MINUTES - 1 - age] += amount
    return minutes


def _amounts(state: Mapping[str, Any]) -> list[tuple[float, int]]:
    """Return when each amount began, and the amount; times are appended last."""
    amounts = list(zip(list(state.get("times", ())), list(state.get("values", ())), strict=False))
    started = state.get("cache_start")
    return [*amounts, (started, state["cache_value"])] if started else amounts
