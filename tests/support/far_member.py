"""A member in a process of its own, which answers questions put on its standard input.

It keeps its ZooKeeper client sending all the time, as a busy program would: kazoo then takes long
to notice that nobody answers.
"""

import json
import sys
import threading

from pyspider_zk.config import Settings
from tests.support.crew import BareScheduler, OpenTimes


def main() -> None:
    scheduler = BareScheduler(Settings(**json.loads(sys.argv[1])), "far").start()
    times = OpenTimes(scheduler)
    times.start()
    threading.Thread(target=keep_sending, args=(scheduler,), daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(state(scheduler, times)), flush=True)  # noqa: T201 - the answer
    times.stop()


def keep_sending(scheduler: BareScheduler) -> None:
    client, pause = scheduler.coordinator.connection._client, threading.Event()
    while not pause.wait(0.1):
        client.exists_async("/")


def state(scheduler: BareScheduler, times: OpenTimes) -> dict[str, object]:
    return {
        "member": str(scheduler.coordinator.member),
        "open": sorted(scheduler.open),
        "connected": scheduler.coordinator.connection.connected,
        "times": times.as_list(),
    }


if __name__ == "__main__":
    main()
