"""Seals of slots: for each slot the highest epoch that took it, in the task database itself.

Who takes a slot seals it first. Whoever writes checks the seal in the transaction of the writes, so
nothing of an older epoch can be committed any more, however late its owner wakes up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspider_zk.errors import SealBroken
from pyspider_zk.tasks.writes import pieces

TABLE = "pyspider-zk-seals"
"""The table of seals; no project can have this name, and so no task table in any database."""


class SealsUnreadable(Exception):
    """The table of seals is missing or damaged, or the database is away: its error is the cause."""


@dataclass(frozen=True, slots=True)
class Seals:
    """What a scheduler believes of the seals of some slots.

    Attributes:
        cluster: the root of the cluster; several may share a database.
        epochs: by slot.
    """

    cluster: str
    epochs: Mapping[int, int]

    def check(self, found: Iterable[tuple[Any, Any]]) -> None:
        """Compare with what the database holds: slots and their epochs.

        Raises:
            SealBroken: a slot has another epoch, or none.
        """
        others = self.others(found)
        if others:
            raise SealBroken(others)

    def others(self, found: Iterable[tuple[Any, Any]]) -> dict[int, Any]:
        """Return what the database holds for the slots where that is another epoch; None: none."""
        stored = dict(found)
        return {
            slot: stored.get(slot)
            for slot, epoch in self.epochs.items()
            if stored.get(slot) != epoch
        }

    def rows(self) -> list[tuple[str, int, int]]:
        """Return the rows of the table, in one order, so that two who seal wait for each other."""
        return [(self.cluster, slot, epoch) for slot, epoch in sorted(self.epochs.items())]

    def questions(self) -> Iterator[tuple[Any, ...]]:
        """Yield the parameters of ``select_seals``: the cluster and some slots."""
        for some in pieces(sorted(self.epochs)):
            yield (self.cluster, *some)


UNSEALED = Seals("", {})
"""No slots: nothing is checked."""


def select_seals(table: str, mark: str, count: int, lock: str = "") -> str:
    """Return a query for the epochs of so many slots.

    Args:
        mark: stands for a parameter.
        lock: what keeps others from sealing these slots until the transaction ends.
    """
    marks = ", ".join([mark] * count)
    return (
        f"SELECT slot, epoch FROM {table}"  # noqa: S608 - no values
        f" WHERE cluster = {mark} AND slot IN ({marks}) ORDER BY slot{lock}"
    )


def sqlite_seal(table: str) -> str:
    """Return an insert that raises the epoch of a slot."""
    return (
        f"INSERT INTO {table} (cluster, slot, epoch) VALUES (?, ?, ?)"  # noqa: S608 - no values
        + _only_upwards(table)
    )


def postgresql_seal(table: str) -> str:
    """Return an insert, from arrays, that raises the epochs of slots."""
    return (
        f"INSERT INTO {table} (cluster, slot, epoch)"  # noqa: S608 - no values
        " SELECT * FROM unnest(%s::varchar[], %s::int4[], %s::int8[])" + _only_upwards(table)
    )


def _only_upwards(table: str) -> str:
    return (
        " ON CONFLICT (cluster, slot) DO UPDATE SET epoch = excluded.epoch"
        f" WHERE excluded.epoch > {table}.epoch"
    )


def mysql_seal(table: str) -> str:
    """Return an insert that raises the epoch of a slot."""
    return (
        f"INSERT INTO {table} (cluster, slot, epoch) VALUES (%s, %s, %s)"  # noqa: S608 - no values
        " ON DUPLICATE KEY UPDATE epoch = GREATEST(epoch, VALUES(epoch))"
    )
