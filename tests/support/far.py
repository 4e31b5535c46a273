"""Members and participants in processes of their own: ``python -m tests.support.far WHICH ...``.

Those that answer questions do so for each line of their standard input.
"""

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspider_zk.config import Settings
from pyspider_zk.controller import WorkerController
from pyspider_zk.errors import ClusterError
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.crew import BareScheduler, OpenTimes


def member(settings: str) -> None:
    """Be a member, whose ZooKeeper client sends all the time, as a busy program would.

    kazoo then takes long to notice that nobody answers.
    """
    scheduler = BareScheduler(Settings(**json.loads(settings)), "far").start()
    times, client = OpenTimes(scheduler), scheduler.coordinator.connection._client
    times.start()
    _again_and_again(0.1, lambda: client.exists_async("/"))
    _answer(
        lambda: {
            "member": str(scheduler.coordinator.member),
            "open": sorted(scheduler.open),
            "connected": scheduler.coordinator.connection.connected,
            "times": times.as_list(),
        }
    )
    times.stop()


def holder(settings: str) -> None:
    """Hold a lock, while three threads ask all the time.

    Tells when it was last seen to have its number and its lock, on the clock that all processes
    of a machine share, and what it was told.
    """
    with WorkerController(Settings(**json.loads(settings)), "work", name="a") as me:
        seen: dict[str, object] = {"number": None, "lock": None, "lost": False}
        lock = me.lock("one")
        lock.acquire()
        for _ in range(3):
            _again_and_again(0.2, me.running)
        _again_and_again(0.005, lambda: _look(me, lock, seen))
        _answer(lambda: seen)


def participant(settings: str, group: str, options: str) -> None:
    """Say the number of a participant, and wait for the end of the input."""
    given = Settings(**json.loads(settings))
    try:
        with WorkerController(given, json.loads(group), **json.loads(options)) as me:
            print(me.number, flush=True)  # noqa: T201 - the answer
            sys.stdin.read()
    except ClusterError as error:
        print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201 - the answer


def _look(me: WorkerController, lock: Any, seen: dict[str, object]) -> None:
    before = boottime()
    if lock.held:
        seen["lock"] = before
    seen["lost"] = lock.lost.is_set()
    _ = me.number  # raises without one
    seen["number"] = before


def _again_and_again(seconds: float, act: Callable[[], object]) -> None:
    def run() -> None:
        pause = threading.Event()
        while not pause.wait(seconds):
            with suppress(ClusterError):
                act()

    threading.Thread(target=run, daemon=True).start()


def _answer(told: Callable[[], object]) -> None:
    for _ in sys.stdin:
        print(json.dumps(told()), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    {"member": member, "holder": holder, "participant": participant}[sys.argv[1]](*sys.argv[2:])
