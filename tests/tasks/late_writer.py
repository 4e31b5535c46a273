"""A process that writes a task and is suspended on the way: run by ``test_late_writers``.

Arguments: the URL of the task database, the epoch at which it owned slot 3, and where it stops:
``before`` the transaction or ``inside`` of it, just before COMMIT. It prints how that ended.
"""

import os
import signal
import sys
from functools import partial

from pyspider.database import connect_database

from pyspider_zk.tasks.database import Seals, TaskWrite, task_database


def main(url: str, epoch: str, moment: str) -> None:
    """Write a task, stop, and go on when told to."""
    bulk = task_database(connect_database(url))
    write = TaskWrite("p1", "late", bulk.encoded({"url": "late", "status": 1}), is_new=True)
    stop = partial(os.kill, os.getpid(), signal.SIGSTOP)
    if moment == "before":
        stop()
    try:
        inside = stop if moment == "inside" else lambda: None
        bulk.write_many([write], inside, Seals("/c", {3: int(epoch)}))
    except Exception as error:
        print(type(error).__name__)  # noqa: T201
    else:
        print("written")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
