"""Project list: all projects with their slots and owners, read again each time."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import BadRequest, Unavailable
from pyspider_zk.jobs.answers import Project
from pyspider_zk.jobs.operations import is_locked
from pyspider_zk.projects.names import is_project_name
from pyspider_zk.projects.rows import shown
from pyspider_zk.projects.selection import Selection
from pyspider_zk.projects.slots import name_of, slot_of

SORTS = tuple(column.name for column in fields(Project))
"""The attributes shown of a project; the database has all but the last two."""

FIELDS = [name for name in SORTS if name not in ("slot", "owner")]

Row = dict[str, Any]


@dataclass(frozen=True)
class ResultPage:
    """Page of a longer list.

    Attributes:
        items: those from ``offset`` on.
        total: how many there are in all.
    """

    items: list[dict[str, Any]]
    total: int
    offset: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the form for XML-RPC and JSON."""
        return asdict(self)


def span(offset: int, limit: int | None) -> slice:
    """Return the slice of a page; numbers below 0 count as 0, and None as no limit."""
    start = max(0, offset)
    return slice(start, None if limit is None else start + max(0, limit))


class ProjectList:
    """All projects: the short columns only.

    Threads: any. Calls block for some seconds at most and raise ``Unavailable`` if the project
    database does not answer, or ZooKeeper when the owners are requested.

    Args:
        projectdb: pyspider's; a copy of it is used.
        cluster: reads the current state of the cluster.
        slots: how many the cluster has.
    """

    def __init__(self, projectdb: Any, cluster: Callable[[], Cluster], slots: int) -> None:
        self._original = projectdb
        self._cluster = cluster
        self._slots = slots
        self._lock = threading.Lock()
        self._copy: Any = None

    def page(
        self,
        selection: Selection,
        sort: str = "name",
        offset: int = 0,
        limit: int | None = None,
        with_owners: bool = True,
    ) -> ResultPage:
        """Return the selected projects; no selection means all.

        Each has the fields of ``answers.Project``.

        Args:
            sort: one of ``SORTS``; with ``-`` before it in reverse.
            with_owners: without, ``owner`` is None everywhere and ZooKeeper is not read.

        Raises:
            BadRequest: there is no such order or status.
        """
        selection = Selection(all=True) if selection == Selection() else selection
        selection.check()
        key, backwards = sort.removeprefix("-"), sort.startswith("-")
        if key not in SORTS:
            raise BadRequest(f"there is no order {sort!r}; known are {', '.join(SORTS)}")
        rows = self.rows(with_owners=with_owners)
        chosen = [rows[name] for name in selection.chosen(rows)]
        chosen.sort(key=lambda row: _rank(row[key]), reverse=backwards)
        return ResultPage(chosen[span(offset, limit)], len(chosen), max(0, offset))

    def locked(self, selection: Selection) -> list[str]:
        """Return the selected projects that are in pyspider's group "lock"."""
        found = self.page(selection, with_owners=selection.owner is not None).items
        return [row["name"] for row in found if is_locked(row["group"])]

    def rows(self, *, with_owners: bool = False) -> dict[str, Row]:
        """Return the rows by name, with ``slot`` and, if requested, ``owner``."""
        owners = self._owners() if with_owners else [None] * self._slots
        rows: dict[str, Row] = {}
        for row in self._read():
            slot = slot_of(row["name"], self._slots)
            rows[row["name"]] = {**row, "slot": slot, "owner": owners[slot]}
        return rows

    def standing_for(self, slot: int, names: Iterable[str]) -> str:
        """Return the project that their job is named after: one of them, or another of their slot.

        A row that was not written by pyspider's editor may have a name that no job can have.
        """
        allowed = filter(is_project_name, names)
        return next(allowed, None) or name_of(slot, self._slots)

    def _read(self) -> list[Row]:
        try:
            with self._lock:
                if self._copy is None:
                    self._copy = self._original.copy()
                return list(filter(None, map(shown, self._copy.get_all(fields=FIELDS))))
        except Exception as error:  # each database has its own errors
            raise Unavailable(f"the project database does not answer: {error!r}") from error

    def _owners(self) -> list[int | None]:
        cluster = self._cluster()
        owners = map(cluster.owner, range(self._slots))
        return [owner.number if owner else None for owner in owners]


def _rank(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a column's value, which may be None."""
    return (True, 0) if value is None else (False, value)
