"""Table of failures: a row for each task that fails; the same in all databases."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from pyspider_zk.tasks.failures import FailedTask, FailureKind, Position
from pyspider_zk.tasks.filters import FailureFilter
from pyspider_zk.tasks.sql import containing, contains
from pyspider_zk.tasks.writes import TaskWrite

T = TypeVar("T")

NAME = "pyspider-zk-failures"
"""No project can have this name, and so no task table in any database."""

COLUMNS = FailedTask._fields

INDEXES = (
    ("kind", "callback", "status_code", "project", "is_given_up", "first_at", "last_at"),
    ("last_at",),
)
"""The first has all that kinds are counted by, so that the rows themselves are not read."""

EQUAL = ("project", "kind", "callback", "status_code")
"""The attributes of a filter that are equal to the columns of their names."""

PART = ("url", "error")
"""Those that are a part of the columns of their names."""

RunMany = Callable[[str, Sequence[tuple[Any, ...]]], object]
"""Carries out a statement with each of some rows of values."""

Ask = Callable[[str, Sequence[Any]], Iterable[Sequence[Any]]]
"""Returns the rows of a query with values."""


AboutFailures = Callable[["FailureTable", Ask], T]
"""Asks the table something by a database."""


class FailureTable:
    """The statements on the table; whoever has the database carries them out.

    Args:
        name: quoted.
        mark: stands for a value.
        dialect: of SQLAlchemy.
    """

    def __init__(self, name: str, mark: str, dialect: str) -> None:
        self._name = name
        self._mark = mark
        self._dialect = dialect

    def write(self, run_many: RunMany, writes: Iterable[TaskWrite]) -> None:
        """Write what writes of tasks say of their failures."""
        failed: dict[tuple[str, str], tuple[Any, ...]] = {}
        recovered: set[tuple[str, str]] = set()
        for each in writes:
            key, failure = (each.project, str(each.taskid)), each.failure
            if failure is None:
                failed.pop(key, None)
                recovered.add(key)
            elif failure is not UNSET:
                failed[key] = (*key, *failure[:-2], int(failure.is_given_up), *[failure.at] * 2)
        recovered -= failed.keys()
        if failed:
            run_many(self._upsert(), [failed[key] for key in sorted(failed)])
        if recovered:
            both = f"project = {self._mark} AND taskid = {self._mark}"
            run_many(f"DELETE FROM {self._name} WHERE {both}", sorted(recovered))  # noqa: S608 - no values

    def drop(self, run_many: RunMany, projects: Iterable[str]) -> None:
        """Delete the failures of projects."""
        rows = [(project,) for project in projects]
        if rows:
            run_many(f"DELETE FROM {self._name} WHERE project = {self._mark}", rows)  # noqa: S608

    def kinds(
        self, ask: Ask, wanted: FailureFilter, offset: int, limit: int
    ) -> tuple[list[FailureKind], int]:
        """Return kinds, those of most tasks first, and how many there are in all."""
        where, values = self._where(wanted)
        rows = list(
            ask(
                "SELECT kind, callback, status_code, count(*) AS tasks, sum(is_given_up),"  # noqa: S608
                " count(DISTINCT project), min(first_at), max(last_at), count(*) OVER ()"
                f" FROM {self._name} WHERE {where} GROUP BY kind, callback, status_code"
                " ORDER BY tasks DESC, kind, callback, status_code"
                f" LIMIT {self._mark} OFFSET {self._mark}",
                [*values, limit, offset],
            )
        )
        kinds = [FailureKind(*row[:3], *map(int, row[3:6]), *map(float, row[6:8])) for row in rows]
        if not rows and offset:
            return [], self.kinds(ask, wanted, 0, 1)[1]
        return kinds, rows[0][8] if rows else 0

    def tasks(
        self, ask: Ask, wanted: FailureFilter, after: Position | None, limit: int
    ) -> list[FailedTask]:
        """Return tasks, the latest first, behind a position."""
        where, values = self._where(wanted)
        if after is not None:
            later, same = f"last_at < {self._mark}", f"last_at = {self._mark}"
            behind = f"(project, taskid) > ({self._mark}, {self._mark})"
            where += f" AND ({later} OR ({same} AND {behind}))"
            values += [after[0], *after]
        query = (
            f"SELECT {', '.join(COLUMNS)} FROM {self._name} WHERE {where}"  # noqa: S608 - no values
            f" ORDER BY last_at DESC, project, taskid LIMIT {self._mark}"
        )
        found = (FailedTask(*row) for row in ask(query, [*values, limit]))
        return [task._replace(is_given_up=bool(task.is_given_up)) for task in found]

    def projects(self, ask: Ask, wanted: FailureFilter, limit: int) -> dict[str, int]:
        """Return how many tasks of each project fail, the projects with most first."""
        where, values = self._where(wanted)
        query = (
            f"SELECT project, count(*) AS tasks FROM {self._name}"  # noqa: S608 - no values
            f" WHERE {where} GROUP BY project ORDER BY tasks DESC, project LIMIT {self._mark}"
        )
        return {project: int(tasks) for project, tasks in ask(query, [*values, limit])}

    def _where(self, wanted: FailureFilter) -> tuple[str, list[Any]]:
        equal = [name for name in EQUAL if getattr(wanted, name) is not None]
        tests = [f"{name} = {self._mark}" for name in equal]
        values = [getattr(wanted, name) for name in equal]
        for name in PART:
            if (text := getattr(wanted, name)) is not None:
                tests.append(contains(name, self._mark))
                values.append(containing(text))
        if wanted.since is not None:
            tests.append(f"last_at >= {self._mark}")
            values.append(wanted.since)
        return " AND ".join(tests) or "1 = 1", values

    def _upsert(self) -> str:
        """Return an insert; since when a task fails stays if it failed before."""
        marks = ", ".join([self._mark] * len(COLUMNS))
        insert = f"INSERT INTO {self._name} ({', '.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608
        changed = [name for name in COLUMNS if name not in ("project", "taskid", "first_at")]
        if self._dialect == "mysql":
            sets = ", ".join(f"{name} = VALUES({name})" for name in changed)
            return f"{insert} ON DUPLICATE KEY UPDATE {sets}"
        sets = ", ".join(f"{name} = excluded.{name}" for name in changed)
        return f"{insert} ON CONFLICT (project, taskid) DO UPDATE SET {sets}"


def says_failure(write: TaskWrite) -> bool:
    """Return whether a write says that its task has failed, or does not fail any more."""
    return write.failure is not UNSET
