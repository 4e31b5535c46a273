"""A scheduler whose rounds are profiled, and which parts of it the profile's functions belong to.

Usage: ``python -m tests.bench.profiled FILE MODULE ARGUMENT...``.

What counts is the processor time of the thread that schedules, so neither the disk nor whoever else
works on this machine is in it.
"""

import atexit
import cProfile
import runpy
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from pyspider.scheduler import Scheduler

from pyspider_zk.scheduling.scheduler import SlotScheduler

Function = tuple[str, int, str]
"""A function in a profile: file, line and name; what is built in is in the file ``~``."""

Stats = Mapping[Function, tuple[Any, ...]]
"""Calls without recursion, calls, own time, time with what is called, and callers, by function."""

WAITING = "waiting for the next round"

# The first that stands in a function's file or name counts.
_PARTS = (
    ("time.sleep", WAITING),
    ("'acquire' of '_thread.lock'", WAITING),
    ("sqlite3", "database"),
    ("psycopg", "database"),
    ("sqlalchemy", "database"),
    ("/pyspider/database/", "database"),
    ("/pyspider_zk/databases/", "database"),
    ("/pyspider_zk/tasks/", "database"),
    ("/json/", "JSON of rows"),
    ("_json", "JSON of rows"),
    ("/umsgpack", "messages: coding and checks"),
    ("msgpack", "messages: coding and checks"),
    ("/pyspider_zk/queues/codec", "messages: coding and checks"),
    ("/pyspider_zk/queues/tasks", "messages: coding and checks"),
    ("_socket.socket", "Redis: client and wait"),
    ("/redis/", "Redis: client and wait"),
    ("select.", "Redis: client and wait"),
    ("/pyspider_zk/queues/", "queues"),
    ("/pyspider/message_queue/", "queues"),
    ("/logging/", "logs"),
    ("/pyspider/libs/log", "logs"),
    ("TextIOWrapper", "logs"),
    ("/tornado/log", "logs"),
    ("/pyspider_zk/scheduling/", "rounds, fence and intake"),
    ("/pyspider_zk/cluster/", "rounds, fence and intake"),
    ("/pyspider/scheduler/", "pyspider's decisions and task queues"),
    ("/pyspider/libs/counter", "counters"),
)
OTHER = "other"


def by_part(stats: Stats) -> dict[str, float]:
    """Return the share of each part in the time that was not waited, the largest first.

    What is built in and belongs to no part itself counts for whoever called it.
    """
    times: defaultdict[str, float] = defaultdict(float)
    for function, (_, _, own, _, callers) in stats.items():
        part = part_of(function)
        if part is None and function[0] == "~" and callers:
            for caller, (_, _, share, _) in callers.items():
                times[part_of(caller) or OTHER] += share
        else:
            times[part or OTHER] += own
    times.pop(WAITING, None)
    whole = sum(times.values()) or 1.0
    ranked = sorted(times.items(), key=lambda item: -item[1])
    return {part: round(time / whole, 3) for part, time in ranked}


def part_of(function: Function) -> str | None:
    """Return the part that a function belongs to by its file or name."""
    file, _, name = function
    text = f"{file.replace(chr(92), '/')} {name}"
    return next((part for sign, part in _PARTS if sign in text), None)


def costliest(stats: Stats, count: int) -> list[dict[str, Any]]:
    """Return the functions with the most time of their own, without those that wait."""
    working = [each for each in stats.items() if part_of(each[0]) != WAITING]
    ranked = sorted(working, key=lambda item: -item[1][2])[:count]
    return [
        {"function": _name(function), "calls": figures[1], "own_s": round(figures[2], 3)}
        for function, figures in ranked
    ]


def _name(function: Function) -> str:
    file, _, name = function
    return name if file == "~" else f"{'/'.join(file.split('/')[-2:])}:{name}"


def profile_rounds(file: str) -> None:
    """Profile all rounds from now on, and write that to the file when the process ends."""
    profiler = cProfile.Profile(time.thread_time)
    Scheduler.run_once = _profiled(profiler, Scheduler.run_once)
    for each in ("run_once", "take_arrivals"):  # whole rounds, and small ones
        setattr(SlotScheduler, each, _profiled(profiler, getattr(SlotScheduler, each)))
    atexit.register(profiler.dump_stats, file)


def _profiled(profiler: cProfile.Profile, a_round: Callable[[Any], None]) -> Callable[[Any], None]:
    def once(scheduler: Any) -> None:
        profiler.runcall(a_round, scheduler)

    return once


if __name__ == "__main__":
    profile_rounds(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
