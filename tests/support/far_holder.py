"""A participant in a process of its own that holds a lock, while three threads ask all the time.

It answers questions put on its standard input: when it was last seen to have its number and its
lock, on the clock that all processes of a machine share, and what it was told.
"""

import json
import sys
import threading
from contextlib import suppress

from pyspider_zk.config import Settings
from pyspider_zk.controller import WorkerController
from pyspider_zk.errors import ClusterError
from pyspider_zk.zookeeper.waiting import boottime

PAUSE = 0.005  # seconds


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    with WorkerController(settings, "work", name="a") as me:
        seen: dict[str, object] = {"number": None, "lock": None, "lost": False}
        lock = me.lock("one")
        lock.acquire()
        for _ in range(3):
            threading.Thread(target=ask, args=(me,), daemon=True).start()
        threading.Thread(target=look, args=(me, lock, seen), daemon=True).start()
        for _ in sys.stdin:
            print(json.dumps(seen), flush=True)  # noqa: T201 - the answer


def ask(me: WorkerController) -> None:
    while True:
        with suppress(ClusterError):
            me.running()
        threading.Event().wait(0.2)


def look(me: WorkerController, lock, seen: dict[str, object]) -> None:
    while True:
        before = boottime()
        if lock.held:
            seen["lock"] = before
        with suppress(ClusterError):
            _ = me.number
            seen["number"] = before
        seen["lost"] = lock.lost.is_set()
        threading.Event().wait(PAUSE)


if __name__ == "__main__":
    main()
