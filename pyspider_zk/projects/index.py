"""Project index: the rows of the project database, compared by content and not by clocks.

pyspider asks for rows that changed since its own last look; a row written by a host whose clock
is behind is then never seen, and a deleted row leaves a ghost. Here every look reads the short
columns of all rows and compares them with the last look.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspider_zk.projects.rows import ACTIVE, comparable, is_name
from pyspider_zk.projects.slots import slot_of

FIELDS = ["name", "group", "status", "rate", "burst", "updatetime"]

MOST_NAMELESS = 100
"""How many rows without a usable name are reported."""


class Row(NamedTuple):
    """What identifies a version of a project; columns may hold anything, see ``comparable``."""

    group: object
    status: object
    rate: object
    burst: object
    updatetime: object


class Changes(NamedTuple):
    """Names that are new or have another row than at the last look, and names that are gone."""

    changed: set[str]
    gone: set[str]


class ProjectIndex:
    """All projects of the cluster, as of the last look.

    Threads: one thread calls ``refresh``; the mappings are replaced whole, so any may read them.

    Attributes:
        active: the numbers of active projects, by slot; slots without any are left out.
        nameless: rows that are no project's, for their name is none, each in words.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._rows: dict[str, Row] = {}
        self._by_slot: dict[int, tuple[str, ...]] = {}
        self.active: Mapping[int, int] = {}
        self.nameless: tuple[str, ...] = ()

    def refresh(self, rows: Iterable[Mapping[str, Any]]) -> Changes:
        """Update with the rows of the database; return the differences.

        What the rows raise while they are read comes through, and nothing is taken in.
        """
        before = self._rows
        now, nameless = _sorted_out(rows)
        self._rows, self.nameless = now, nameless
        changed = {name for name, row in now.items() if before.get(name) != row}
        gone = before.keys() - now.keys()
        if changed or gone:
            self._by_slot = self._grouped()
            self.active = self._counted()
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

    def _counted(self) -> dict[int, int]:
        counts = {
            slot: sum(self._rows[name].status in ACTIVE for name in names)
            for slot, names in self._by_slot.items()
        }
        return {slot: count for slot, count in counts.items() if count}


def _sorted_out(rows: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Row], tuple[str, ...]]:
    """Return the rows by name, and in words those that have none."""
    found: dict[str, Row] = {}
    nameless: set[str] = set()
    for row in rows:
        name = row.get("name")
        if is_name(name):
            found[str(name)] = _row(row)
        elif len(nameless) < MOST_NAMELESS:
            nameless.add(f"row named {name!a}")
    return found, tuple(sorted(nameless))


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        comparable(row.get("group") or ""), *(comparable(row.get(key)) for key in FIELDS[2:])
    )
