"""Rules of the product taken away on purpose, to show that a run finds out.

Each is handed the scheduler when it is made, before it has joined.
"""

import os
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from pyspider_zk.cluster.rules import Rules
from pyspider_zk.scheduling import project_set
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.unreadable import Unreadable

ENDS_AFTER = 9.0
"""Seconds until a scheduler that ends by itself does."""


def _no_fence(scheduler: Any) -> None:
    """Do whatever is held in memory, however old the lease is."""
    fence = scheduler.fence
    fence.is_open = fence.holds
    fence.all_open = lambda: True


def _no_seals(scheduler: Any) -> None:
    """Do that, and write whatever the task database knows of the slot."""
    _no_fence(scheduler)
    bulk = scheduler.taskdb._bulk._bulk
    write_many = bulk.write_many
    bulk.write_many = lambda writes, before_commit, _: write_many(writes, before_commit)


def _no_wait(_: Any) -> None:
    """As leader, give a member's slots away while its lease may still hold."""
    Rules.expiry = 1.2  # type: ignore[method-assign, assignment]


def _no_handoff(scheduler: Any) -> None:
    """Leave the next owner nothing but what the databases hold."""
    scheduler.slot_scheduler.handover._save = lambda *_, **__: None


def _no_state(_: Any) -> None:
    """Take over neither rate nor pause nor counters."""
    project_set.restore_state = lambda *_: None
    project_set.load_windows = lambda *_: None


def _no_tick_pages(scheduler: Any) -> None:
    """Drop half of the pages that ticks ask for."""
    _drop_tasks(scheduler, lambda task: "/tick/" in task["url"] and _share(task) < 50)


def _no_tasks(scheduler: Any) -> None:
    """Drop three of a hundred new tasks."""
    _drop_tasks(scheduler, lambda task: task["url"].startswith("http") and _share(task) < 3)


def _no_packs(scheduler: Any) -> None:
    """Drop ten of a hundred status packs, each once."""
    apply, dropped = scheduler.on_task_status, set()

    def some(task: dict[str, Any]) -> Any:
        key = task["project"], task["taskid"]
        if task["url"].startswith("http") and _share(task) < 10 and key not in dropped:
            dropped.add(key)
            return None
        return apply(task)

    scheduler.on_task_status = some


def _ticks_twice(scheduler: Any) -> None:
    calls = scheduler.slot_scheduler.script_calls
    send = calls.send_tick

    def twice(project: str, tick: int) -> None:
        send(project, tick)
        send(project, tick)

    calls.send_tick = twice


def _refusals(_: Any) -> None:
    """Take whatever ZooKeeper refuses for the time being for a fault of the program."""
    Connection._meaning = lambda _, error, path: RuntimeError(path, error)  # type: ignore[method-assign, assignment, return-value]


def _names(_: Any) -> None:
    """Take every child of a znode for one of ours."""
    Unreadable.parsed = lambda _, __, names, parse: {name: parse(name) for name in names}  # type: ignore[method-assign]


def _ends(scheduler: Any) -> None:
    """End by itself with code 7, one of the first schedulers."""
    if scheduler.history.name == "s1-1":
        threading.Timer(ENDS_AFTER, os._exit, (7,)).start()


def _drop_tasks(scheduler: Any, is_meant: Callable[[dict[str, Any]], bool]) -> None:
    request = scheduler.request
    scheduler.request = lambda task: True if is_meant(task) else request(task)


def _share(task: Mapping[str, Any]) -> int:
    """Return a number below 100 that the project and its task decide on, the same in all runs."""
    return zlib.crc32(f"{task['project']} {task['taskid']}".encode()) % 100


MUTATIONS: Mapping[str, Callable[[Any], None]] = {
    "fence": _no_fence,
    "seals": _no_seals,
    "wait": _no_wait,
    "handoff": _no_handoff,
    "state": _no_state,
    "tick_pages": _no_tick_pages,
    "tasks": _no_tasks,
    "packs": _no_packs,
    "single_ticks": _ticks_twice,
    "refusals": _refusals,
    "names": _names,
    "long_life": _ends,
}
