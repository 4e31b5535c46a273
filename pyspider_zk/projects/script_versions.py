"""Script versions: what projects' scripts were and who saved them, beside the projects."""

from collections.abc import Collection
from typing import Any, NamedTuple

from pyspider.database.sqlalchemy.tables import KEY, MYSQL, NUMBER, TEXT
from sqlalchemy import Column, MetaData, Select, Table, delete, insert, select

from pyspider_zk.databases.archive import Archive
from pyspider_zk.tasks.database import answered

KEPT = 50
"""How many versions of a project are kept, the newest."""

DROPPED_AT_ONCE = 500  # projects

APART = 0.001  # seconds between two versions of a project, at least

_TABLE = Table(
    "pyspider-zk-scripts",
    MetaData(),
    Column("project", KEY, primary_key=True),
    Column("saved_at", NUMBER, primary_key=True),
    Column("who", TEXT, nullable=False),
    Column("script", TEXT, nullable=False),
    **MYSQL,
)


class ScriptVersion(NamedTuple):
    """A version of a script, without the script.

    Attributes:
        saved_at: seconds since the epoch, in whole milliseconds; later than the version before.
        who: the user; empty: not known.
    """

    saved_at: float
    who: str


class ScriptVersions:
    """The versions of all projects' scripts.

    Threads: any; calls block for the database and raise ``Unavailable`` if it does not answer. The
    constructor does no I/O.

    Args:
        projectdb: pyspider's.
    """

    def __init__(self, projectdb: Any) -> None:
        self._projectdb = projectdb
        self._archive = Archive(projectdb, _TABLE)

    def keep(self, project: str, script: str, who: str, at: float) -> None:
        """Keep a version, unless the newest has the same script; the oldest beyond go.

        Args:
            at: when it was saved, by a clock that may differ from those of the versions before.
        """
        newest = self._archive.rows(_of(project, "saved_at", "script").limit(1))
        if newest and newest[0]["script"] == script:
            return
        at = round(max([at, *(row["saved_at"] + APART for row in newest)]), 3)
        row = {"project": project, "saved_at": at, "who": who, "script": script}
        self._archive.change(insert(_TABLE).values(row))
        for oldest in self.versions(project)[KEPT : KEPT + 1]:
            old = _TABLE.c.saved_at <= oldest.saved_at
            self._archive.change(delete(_TABLE).where(_TABLE.c.project == project, old))

    def versions(self, project: str) -> list[ScriptVersion]:
        """Return the versions of a project, the newest first."""
        rows = self._archive.rows(_of(project, *ScriptVersion._fields))
        return [ScriptVersion(**row) for row in rows]

    def script(self, project: str, saved_at: float) -> str | None:
        """Return the script of a version, None if there is no such version."""
        found = self._archive.rows(_of(project, "script").where(_TABLE.c.saved_at == saved_at))
        return found[0]["script"] if found else None

    def forget_gone(self) -> None:
        """Drop the versions of projects that are gone."""
        kept = self._archive.rows(select(_TABLE.c.project).distinct())  # before those there are
        there = answered(lambda: list(self._projectdb.get_all(fields=["name"])))
        gone = sorted({row["project"] for row in kept} - {row["name"] for row in there})
        for start in range(0, len(gone), DROPPED_AT_ONCE):
            self.drop(gone[start : start + DROPPED_AT_ONCE])

    def drop(self, projects: Collection[str]) -> None:
        """Drop all versions of projects."""
        self._archive.change(delete(_TABLE).where(_TABLE.c.project.in_(projects)))

    def close(self) -> None:
        """Close the connections."""
        self._archive.close()


def _of(project: str, *columns: str) -> Select[Any]:
    """Return the query for these columns of a project's versions, the newest first."""
    query = select(*(_TABLE.c[name] for name in columns)).where(_TABLE.c.project == project)
    return query.order_by(_TABLE.c.saved_at.desc())
