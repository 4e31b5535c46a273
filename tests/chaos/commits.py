"""The order in which the task database committed seals and writes, as sqlite itself kept it.

Each line is written in the transaction that it tells of, and transactions that write come one after
the other. So no clock, and no pause of a process, has a part in the order. Of other databases no
order is known.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspider_zk.tasks.database import Seals, task_database
from pyspider_zk.tasks.seals import TABLE

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


def watch(taskdb: Any) -> None:
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


def note(taskdb: Any, member: str, seals: Seals) -> None:
    """Add a write to the log, in the transaction of this thread."""
    if _keeps_order(taskdb):
        lines = [("write", slot, epoch, member) for slot, epoch in seals.epochs.items()]
        taskdb.dbcur.executemany(_ADD, lines)


def committed(taskdb: Any) -> Iterator[Commit]:
    """Yield the log."""
    if not _keeps_order(taskdb):
        return iter(())
    query = f"SELECT kind, slot, epoch, member FROM {_LOG} ORDER BY rowid"  # noqa: S608
    return map(Commit._make, taskdb._execute(query))


def _keeps_order(taskdb: Any) -> bool:
    return hasattr(taskdb, "dbcur")
