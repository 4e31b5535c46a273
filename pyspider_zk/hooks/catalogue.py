"""What the project database says, compared row by row instead of by anybody's clock.

pyspider asks for rows that changed since its own last look; a row written by a host whose clock
is behind is then never seen, and a deleted row leaves a ghost. Here every look reads the short
columns of all rows and compares them with the last look.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspider_zk.core.operations import ACTIVE
from pyspider_zk.core.slots import slot_of

FIELDS = ["name", "group", "status", "updatetime"]


class Row(NamedTuple):
    """What identifies a version of a project."""

    group: str
    status: str
    updatetime: float


class Changes(NamedTuple):
    """Names that are new or have another row than at the last look, and names that are gone."""

    changed: set[str]
    gone: set[str]


class Catalogue:
    """All projects of the cluster, as of the last look.

    Threads: one thread calls ``refresh``; the mappings are replaced whole, so any may read them.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._rows: dict[str, Row] = {}
        self._by_slot: dict[int, tuple[str, ...]] = {}
        self.weights: Mapping[int, int] = {}

    def refresh(self, rows: Iterable[Mapping[str, Any]]) -> Changes:
        """Take in a look at the database; return what differs from the last one."""
        before = self._rows
        self._rows = {
            row["name"]: Row(row["group"] or "", row["status"], row["updatetime"]) for row in rows
        }
        changed = {name for name, row in self._rows.items() if before.get(name) != row}
        gone = before.keys() - self._rows.keys()
        if changed or gone:
            self._by_slot = self._grouped()
            self.weights = self._weighed()
        return Changes(changed, set(gone))

    def names(self, slot: int) -> tuple[str, ...]:
        """Return the projects of a slot."""
        return self._by_slot.get(slot, ())

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def _grouped(self) -> dict[int, tuple[str, ...]]:
        groups: dict[int, list[str]] = {}
        for name in sorted(self._rows):
            groups.setdefault(slot_of(name, self._slots), []).append(name)
        return {slot: tuple(names) for slot, names in groups.items()}

    def _weighed(self) -> dict[int, int]:
        """Weigh a slot by its active projects; slots without any weigh nothing."""
        weights = {
            slot: sum(self._rows[name].status in ACTIVE for name in names)
            for slot, names in self._by_slot.items()
        }
        return {slot: weight for slot, weight in weights.items() if weight}
