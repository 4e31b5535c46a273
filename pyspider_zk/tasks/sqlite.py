"""pyspider's sqlite task database in bulk."""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, TypeVar, get_type_hints

from pyspider.database.basedb import BaseDB

from pyspider_zk.databases.sqlite import quoted_table, transaction
from pyspider_zk.tasks import failure_table
from pyspider_zk.tasks.columns import encode, untyped
from pyspider_zk.tasks.documents import readable
from pyspider_zk.tasks.failure_table import AboutFailures, FailureTable, says_failure
from pyspider_zk.tasks.failures import FailedTask
from pyspider_zk.tasks.filters import TaskFilter
from pyspider_zk.tasks.pages import (
    FOUND,
    LOOKED_AT,
    NO_ROWS,
    NOTHING_FOUND,
    ActivePage,
    FoundPage,
    active_page_of,
    count_states,
    found_page,
    page_of,
)
from pyspider_zk.tasks.seals import (
    TABLE,
    UNSEALED,
    Seals,
    SealsUnreadable,
    select_seals,
    sqlite_seal,
)
from pyspider_zk.tasks.sql import (
    containing,
    contains,
    sqlite_between,
    sqlite_count,
    sqlite_last_ended,
    sqlite_page,
    sqlite_search,
    sqlite_searched,
    sqlite_select,
    sqlite_update,
    sqlite_upsert,
)
from pyspider_zk.tasks.writes import TaskWrite, grouped, ids_last, pieces, projects_to_make

T = TypeVar("T")

ENCODERS = untyped()

SEALS = f"`{TABLE}`"

FAILURES = f"`{failure_table.NAME}`"

KINDS = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL"}
FAILURE_COLUMNS = {name: KINDS[kind] for name, kind in get_type_hints(FailedTask).items()}

BEGIN = -(2**63)
"""The position before all rows."""


class SqliteTasks:
    """Tasks in the tables of pyspider's sqlite backend.

    Threads: any; each has a connection of its own. Blocks for the file, and for whoever else has
    locked it for as long as ``taskdb.patience``.
    """

    def __init__(self, taskdb: Any) -> None:
        self._taskdb = taskdb
        self._is_stale = True
        self._failures = FailureTable(FAILURES, "?", "sqlite")
        self._keeps_failures = False  # whether their table is certain to be there

    def encoded(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns as they are stored; see ``TaskDatabase``."""
        return encode(columns, ENCODERS)

    def look_again(self) -> None:
        """List the tables with the next request; see ``TaskDatabase``."""
        self._is_stale = True
        self._keeps_failures = False

    def projects(self) -> set[str]:
        """Return the projects that have tables; see ``TaskDatabase``."""
        if self._is_stale:
            self._taskdb._list_project()
            self._is_stale = False
        known: set[str] = self._taskdb.projects
        return known

    def get_many(
        self, project: str, taskids: Collection[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        """Return rows by task id; see ``TaskDatabase``."""
        if project not in self.projects():
            return {}
        found: dict[str, dict[str, Any] | None] = {}
        with closing(self._taskdb.dbcur) as cursor:
            for some in pieces(list(taskids)):
                ids = padded(some)
                table = quoted_table(self._taskdb, project)
                query = sqlite_select(_quoted(("taskid", *fields)), len(ids))
                cursor.execute(query.replace("{}", table), ids)
                names = [column[0] for column in cursor.description[1:]]
                for taskid, *values in cursor:
                    found[taskid] = readable(zip(names, values, strict=True))
        return found

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Return ACTIVE rows in the order of their rowids; see ``TaskDatabase``."""
        if project not in self.projects():
            return NO_ROWS
        columns = ("taskid", "schedule", "updatetime")
        statement = sqlite_page(quoted_table(self._taskdb, project), columns)
        rows = self._page(statement, self._taskdb.ACTIVE, after, limit)
        return active_page_of(project, rows, limit)

    def state_page(
        self, project: str, status: int, after: Any, limit: int, fields: Sequence[str]
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return rows in the order of their rowids; see ``TaskDatabase``."""
        if project not in self.projects():
            return (), None
        statement = sqlite_page(quoted_table(self._taskdb, project), _quoted(tuple(fields)))
        stored = self._page(statement, status, after, limit)
        return page_of(fields, stored, limit, readable)

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the id alone: it is stored as it is; see ``TaskDatabase``."""
        return (taskid,)

    def count_page(self, project: str, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
        """Count rows in the order of their rowids; see ``TaskDatabase``."""
        if project not in self.projects():
            return {}, None
        statement = sqlite_count(quoted_table(self._taskdb, project))
        return count_states(partial(self._count, statement), after, limit)

    def search_page(
        self, project: str, wanted: TaskFilter, after: Any, size: int, limit: int
    ) -> FoundPage:
        """Search rows in the order of their rowids; see ``TaskDatabase``."""
        if project not in self.projects():
            return NOTHING_FOUND
        table, first = quoted_table(self._taskdb, project), BEGIN if after is None else after
        tests, values = _searched(wanted)
        with closing(self._taskdb.dbcur) as cursor:
            cursor.execute(sqlite_searched(table), (first, size))
            ((count, last),) = cursor
            query = sqlite_search(table, _quoted(FOUND), tests)
            rows = list(cursor.execute(query, (first, last, *values, limit)))
            if len(rows) < limit:
                return found_page(rows, count, last if count >= size else None)
            last = rows[-1][-1]
            ((count,),) = cursor.execute(sqlite_between(table), (first, last))
        return found_page(rows, count, last)

    def last_ended(self, project: str, limit: int) -> Sequence[Any]:
        """Return ids, among those of the newest rows; see ``TaskDatabase``."""
        if project not in self.projects():
            return ()
        statement = sqlite_last_ended(quoted_table(self._taskdb, project))
        states = (self._taskdb.SUCCESS, LOOKED_AT, self._taskdb.FAILED, LOOKED_AT)
        with closing(self._taskdb.dbcur) as cursor:
            return [taskid for (taskid,) in cursor.execute(statement, (*states, limit))]

    def _count(self, statement: str, status: int, after: Any, limit: int) -> tuple[int, Any]:
        ((count, last),) = self._page(statement, status, after, limit)
        return count, last if count >= limit else None

    def _page(self, statement: str, status: int, after: Any, limit: int) -> list[Any]:
        first = BEGIN if after is None else after
        with closing(self._taskdb.dbcur) as cursor:
            return list(cursor.execute(statement, (status, first, limit)))

    def write_many(
        self,
        writes: Sequence[TaskWrite],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,
    ) -> None:
        """Carry out all writes, or none; see ``TaskDatabase``."""
        if not self.projects().issuperset(write.project for write in writes):
            self.look_again()
        known = self.projects()
        to_make = projects_to_make(writes, known)
        self._is_stale = True  # until it is known that no table was missing
        if not self._keeps_failures and any(map(says_failure, writes)):
            self._make_failures()
        with transaction(self._taskdb) as cursor:
            seals.check(self._seals(cursor, seals))
            for project in to_make:
                self._taskdb._create_project(project)  # by the connection of this thread
            for group in grouped(writes, time.time(), lambda taskid: taskid):
                table, names = quoted_table(self._taskdb, group.project), _quoted(group.names)
                if group.is_new:
                    group.rows.sort(key=itemgetter(-1))  # rowids then tell which came first
                    cursor.executemany(sqlite_upsert(names).replace("{}", table), group.rows)
                else:
                    cursor.executemany(
                        sqlite_update(names).replace("{}", table), ids_last(group.rows)
                    )
            self._failures.write(cursor.executemany, writes)
            before_commit()
        known.update(to_make)
        self._is_stale = False

    def drop(
        self,
        projects: Collection[str],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,
        *,
        is_for_good: bool = True,
    ) -> None:
        """Drop the rows of projects; see ``TaskDatabase``.

        Whenever a table goes or comes, each process reads the definitions of all tables of the file
        anew, so tables stay if they may.
        """
        self.look_again()  # other processes make tables, and drop them
        there = self.projects().intersection(projects)
        verb = "DROP TABLE" if is_for_good else "DELETE FROM"
        with transaction(self._taskdb) as cursor:
            seals.check(self._seals(cursor, seals))
            for project in there:
                cursor.execute(f"{verb} {quoted_table(self._taskdb, project)}")
            if self._has_failures(cursor):
                self._failures.drop(cursor.executemany, projects)
            before_commit()
        if is_for_good:
            self.projects().difference_update(there)

    def ask_failures(self, question: AboutFailures[T]) -> T | None:
        """Ask the table of failures; see ``TaskDatabase``."""
        with closing(self._taskdb.dbcur) as cursor:
            if not self._has_failures(cursor):
                return None
            return question(self._failures, cursor.execute)

    def _has_failures(self, cursor: sqlite3.Cursor) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return cursor.execute(query, (failure_table.NAME,)).fetchone() is not None

    def _make_failures(self) -> None:
        """Make the table of failures, unless it is there."""
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in FAILURE_COLUMNS.items())
        with closing(self._taskdb.dbcur) as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {FAILURES}"
                f" ({columns}, PRIMARY KEY (project, taskid)) WITHOUT ROWID"
            )
            for number, names in enumerate(failure_table.INDEXES):
                cursor.execute(
                    f"CREATE INDEX IF NOT EXISTS `{failure_table.NAME}-{number}`"
                    f" ON {FAILURES} ({', '.join(names)})"
                )
        self._keeps_failures = True

    def seal(self, seals: Seals) -> Mapping[int, Any]:
        """Seal slots; see ``TaskDatabase``."""
        with transaction(self._taskdb) as cursor:
            try:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {SEALS} (cluster TEXT NOT NULL,"
                    " slot INTEGER NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (cluster, slot))"
                )
                cursor.executemany(sqlite_seal(SEALS), seals.rows())
            except sqlite3.Error as error:
                raise SealsUnreadable(f"{TABLE}: {error}") from error
            return seals.others(self._seals(cursor, seals))

    def _seals(self, cursor: sqlite3.Cursor, seals: Seals) -> list[tuple[Any, Any]]:
        """Return the slots and epochs that the database holds; nobody changes them meanwhile."""
        try:
            return [
                row
                for asked in seals.questions()
                for row in cursor.execute(select_seals(SEALS, "?", len(asked) - 1), asked)
            ]
        except sqlite3.Error as error:
            raise SealsUnreadable(f"{TABLE}: {error}") from error


def _searched(wanted: TaskFilter) -> tuple[list[str], list[Any]]:
    """Return what a row must hold, and the values."""
    tests = {
        contains("url", "?"): wanted.url and containing(wanted.url),
        "status = ?": wanted.status,
        "lastcrawltime >= ?": wanted.since,
    }
    given = {test: value for test, value in tests.items() if value is not None}
    return list(given), list(given.values())


@lru_cache
def _quoted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(BaseDB.escape, names))


def padded(taskids: Sequence[str]) -> Sequence[str | None]:
    """Return ids in a number that is a power of two: few statements, which sqlite parses once.

    NULL is equal to no id.
    """
    size = 1 << (len(taskids) - 1).bit_length()
    return [*taskids, *[None] * (size - len(taskids))]
