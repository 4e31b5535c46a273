"""What is written down in a run: histories, and the order of commits.

The history of a process are JSON lines with boot-time stamps, written at once. A line goes out in
one unbuffered write, so what a killed process did stands in its file.

The order in which the task database committed seals and writes is as sqlite itself kept it. Each
line is written in the transaction that it tells of, and transactions that write come one after
the other. So no clock, and no pause of a process, has a part in the order. Of other databases no
order is known.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from pyspider_zk.tasks.database import Seals, task_database
from pyspider_zk.tasks.seals import TABLE

PROCESSING_TIMEOUT = 60.0
"""Seconds after which a scheduler of a run sends again what nothing came back of.

The slowest page takes four of them on an idle machine, and 15 beside two other suites on two cores.
"""


def boottime() -> float:
    """Return the seconds since boot; the same clock in all processes, never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Recorder:
    """Adds events to a file. Threads: any.

    Attributes:
        name: whose events they are.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    @classmethod
    def from_environment(cls) -> Self:
        """Open the file that the harness named for this process."""
        return cls(Path(os.environ["CHAOS_HISTORY"]))

    def note(self, event: str, *, at: float | None = None, **fields: Any) -> None:
        """Write an event down; ``at``: when it began, if that is not now."""
        line = {"t": boottime() if at is None else at, "e": event, **fields}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read_lines(path: Path) -> list[Any]:
    """Return the events of a file; a last line that was cut off by a kill is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


_LOG = "chaos_commits"  # pyspider lists only what begins with ``taskdb_``
_ADD = f"INSERT INTO {_LOG} (kind, slot, epoch, member) VALUES (?, ?, ?, ?)"  # noqa: S608


class Commit(NamedTuple):
    """One slot's part in a transaction.

    Attributes:
        kind: ``seal`` or ``write``.
        epoch: of whoever did it.
        member: of a write.
    """

    kind: str
    slot: int
    epoch: int
    member: str | None = None


def watch_commits(taskdb: Any) -> None:
    """Make the log, and the triggers that add seals to it; before any scheduler starts."""
    if not _keeps_order(taskdb):
        return
    task_database(taskdb).seal(Seals("/nobody's", {0: 0}))  # makes the table
    taskdb._execute(f"CREATE TABLE {_LOG} (kind, slot, epoch, member)")
    for event in ("INSERT", "UPDATE"):
        taskdb._execute(
            f"CREATE TRIGGER chaos_{event} AFTER {event} ON `{TABLE}` BEGIN"  # noqa: S608
            f" INSERT INTO {_LOG} (kind, slot, epoch) VALUES ('seal', NEW.slot, NEW.epoch); END"
        )


def note_commit(taskdb: Any, member: str, seals: Seals) -> None:
    """Add a write to the log, in the transaction of this thread."""
    if _keeps_order(taskdb):
        lines = [("write", slot, epoch, member) for slot, epoch in seals.epochs.items()]
        taskdb.dbcur.executemany(_ADD, lines)


def committed(taskdb: Any) -> Iterator[Commit]:
    if not _keeps_order(taskdb):
        return iter(())
    query = f"SELECT kind, slot, epoch, member FROM {_LOG} ORDER BY rowid"  # noqa: S608
    return map(Commit._make, taskdb._execute(query))


def _keeps_order(taskdb: Any) -> bool:
    return hasattr(taskdb, "dbcur")
