"""A scheduler whose rounds are profiled.

Usage: ``python -m tests.bench.profiled FILE MODULE ARGUMENT...``.

What counts is the processor time of the thread that schedules, so neither the disk nor whoever else
works on this machine is in it.
"""

import atexit
import cProfile
import runpy
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspider.scheduler import Scheduler

from pyspider_zk.scheduling.scheduler import SlotScheduler


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
