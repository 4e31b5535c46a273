"""A watchdog whose workers live as the arguments say, one after the other.

Each worker says in its folder that it lives, before it does what its argument says.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from pyspider_zk.components.watchdog import TaskMark, Watchdog

LIVES = Path("lives")
TASK = {"taskid": "t", "project": "p", "url": "http://site.example/", "other": 1}


def live(mark: TaskMark, lives: list[str]) -> None:
    """Live the next life: ``WHAT`` or ``WHAT=NUMBER``."""
    what, _, number = lives[begun()].partition("=")
    if what in ("hold", "abort"):
        with mark.at_hand(TASK):
            mark.limit(float(number))
            begin()
            work(what)
    begin()
    if what == "exit":
        sys.exit(int(number))
    elif what == "report":
        lost = mark.lost()
        told = json.dumps(lost and {**lost.task, "reason": lost.reason})
        sys.stdout.write(f"{told} {mark.is_last}\n")
        mark.reported()
    else:
        signal.pause()


def begun() -> int:
    """Return how many workers lived before."""
    return len(LIVES.read_text().splitlines()) if LIVES.exists() else 0


def begin() -> None:
    """Say that this worker lives."""
    with LIVES.open("a") as file:
        file.write(f"{os.getpid()}\n")


def work(how: str) -> None:
    """Do not end by oneself, or not well."""
    if how == "abort":
        os.abort()
    while True:
        with suppress(BaseException):
            time.sleep(60)


def main() -> None:
    """Run the watchdog."""
    mark = TaskMark()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Watchdog(mark, tick=0.02).guard()
    live(mark, sys.argv[1:])


if __name__ == "__main__":
    main()
