"""Task databases on servers, by SQLAlchemy, in bulk."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar, get_type_hints

from msgspec.structs import replace
from pyspider.database.sqlalchemy.rows import loaded
from pyspider.database.sqlalchemy.tables import KEY, MYSQL, NUMBER, TEXT, check_name, chosen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    CursorResult,
    Executable,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    func,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pyspider_zk.tasks import failure_table
from pyspider_zk.tasks.columns import encode, typed
from pyspider_zk.tasks.dialects import IDLE_LIMITS, SEALERS, WRITERS, sealed
from pyspider_zk.tasks.documents import readable
from pyspider_zk.tasks.failure_table import AboutFailures, FailureTable, says_failure
from pyspider_zk.tasks.failures import CALLBACK_LENGTH, KIND_LENGTH, FailedTask
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
from pyspider_zk.tasks.seals import TABLE, UNSEALED, Seals, SealsUnreadable
from pyspider_zk.tasks.sql import postgresql_array, postgresql_select
from pyspider_zk.tasks.writes import TaskWrite, grouped, pieces, projects_to_make

T = TypeVar("T")

ENCODERS = {
    "postgresql": typed(whole_bits=32, id_length=255, nul=False, endless=True),
    "mysql": typed(whole_bits=32, id_length=255, nul=True, endless=False),
    "sqlite": typed(whole_bits=64, id_length=None, nul=True, endless=True),
}

NAMES = 4096
"""Tables and columns whose names are kept quoted."""

Found = tuple[str, dict[str, Any]]
"""A task id, and its row as it is stored."""


class SharedTasks:
    """Tasks in the tables of pyspider's backend on SQLAlchemy.

    Threads: any. Blocks for the network, and for locks as long as each connection permits.
    """

    def __init__(self, taskdb: Any) -> None:
        self._taskdb = taskdb
        self._tables = taskdb._tables
        self._connections = taskdb._connections
        self._dialect: str = taskdb._connections.dialect
        self._level = "SERIALIZABLE" if self._dialect == "sqlite" else "READ COMMITTED"
        self._is_stale = True
        self._quoted = lru_cache(NAMES)(self._quote)
        self._keeps_failures = False  # whether their table is certain to be there

    def encoded(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns as they are stored; see ``TaskDatabase``."""
        return encode(columns, ENCODERS[self._dialect])

    def look_again(self) -> None:
        """List the tables with the next request; see ``TaskDatabase``."""
        self._is_stale = True
        self._keeps_failures = False

    def projects(self) -> set[str]:
        """Return the projects that have tables; see ``TaskDatabase``."""
        if self._is_stale:
            self._tables.look()
            self._is_stale = False
        known: set[str] = self._tables.projects
        return known

    def get_many(
        self, project: str, taskids: Collection[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        """Return rows by task id; see ``TaskDatabase``."""
        if project not in self.projects():
            return {}
        keys = {taskid: str(taskid) for taskid in taskids}
        ask = partial(self._rows, project, fields)
        rows: dict[str, dict[str, Any]] = {}
        for some in pieces(list(dict.fromkeys(keys.values()))):
            rows.update(ask(some))
        if self._dialect == "mysql":
            rows.update(_alike(set(keys.values()) - rows.keys(), set(map(_folded, rows)), ask))
        found = ((taskid, rows[key]) for taskid, key in keys.items() if key in rows)
        return {taskid: readable(row, loaded) for taskid, row in found}

    def _rows(self, project: str, fields: Sequence[str], taskids: Sequence[str]) -> Iterator[Found]:
        names = fields or list(self._tables._columns)
        if self._dialect == "postgresql":  # SQLAlchemy takes longer to write a query than to ask it
            quoted = list(map(self._quoted, ["taskid", *names]))
            query = postgresql_select(self._quoted(project), quoted)
            rows = self._read(lambda it: it.exec_driver_sql(query, (postgresql_array(taskids),)))
        else:
            tasks = self._tables.find(project)
            key = tasks.c.taskid
            rows = self._all(select(key, *chosen(tasks, names)).where(key.in_(taskids)))
        for taskid, *values in rows:
            yield taskid, dict(zip(names, values, strict=True))

    def _read(self, ask: Callable[[Connection], CursorResult[Any]]) -> list[Any]:
        """Return the rows of a query."""
        with self._connections.engine.connect() as connection:
            return list(ask(connection))

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Return ACTIVE rows in the order of their task ids; see ``TaskDatabase``."""
        tasks = self._found(project)
        if tasks is None:
            return NO_ROWS
        columns = (tasks.c.taskid, tasks.c.schedule, tasks.c.updatetime, tasks.c.taskid)
        rows = self._all(_page(tasks, columns, self._taskdb.ACTIVE, after, limit))
        return active_page_of(project, rows, limit, loaded)

    def state_page(
        self, project: str, status: int, after: Any, limit: int, fields: Sequence[str]
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return rows in the order of their task ids; see ``TaskDatabase``."""
        tasks = self._found(project)
        if tasks is None:
            return (), None
        columns = [*chosen(tasks, fields), tasks.c.taskid]
        stored = self._all(_page(tasks, columns, status, after, limit))
        return page_of(fields, stored, limit, partial(readable, read=loaded))

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the id, the number that it is the text of, and without spaces at its end."""
        found: set[Any] = {taskid, self._compared(taskid)}
        is_number = taskid.removeprefix("-").isdecimal() and str(int(taskid)) == taskid
        return found | {int(taskid)} if is_number else found

    def count_page(self, project: str, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
        """Count rows in the order of their task ids; see ``TaskDatabase``."""
        tasks = self._found(project)
        if tasks is None:
            return {}, None
        return count_states(partial(self._count, tasks), after, limit)

    def search_page(
        self, project: str, wanted: TaskFilter, after: Any, size: int, limit: int
    ) -> FoundPage:
        """Search rows in the order of their task ids; see ``TaskDatabase``."""
        tasks = self._found(project)
        if tasks is None:
            return NOTHING_FOUND
        after = None if after is None else str(after)
        next_ones = _page(tasks, [tasks.c.taskid], None, after, size).subquery()
        ((count, last),) = self._all(select(func.count(), func.max(next_ones.c.taskid)))
        if not count:
            return NOTHING_FOUND
        columns = [*chosen(tasks, FOUND), tasks.c.taskid]
        query = _page(tasks, columns, wanted.status, after, limit).where(tasks.c.taskid <= last)
        if wanted.url:
            query = query.where(tasks.c.url.icontains(wanted.url, autoescape=True))
        if wanted.since is not None:
            query = query.where(tasks.c.lastcrawltime >= wanted.since)
        rows = self._all(query)
        if len(rows) < limit:
            return found_page(rows, count, last if count >= size else None)
        seen = select(func.count()).where(next_ones.c.taskid <= rows[-1][-1])
        return found_page(rows, self._all(seen)[0][0], rows[-1][-1])

    def last_ended(self, project: str, limit: int) -> Sequence[Any]:
        """Return ids, among some thousands; see ``TaskDatabase``."""
        tasks = self._found(project)
        if tasks is None:
            return ()
        ended = tasks.c.status.in_((self._taskdb.SUCCESS, self._taskdb.FAILED))
        columns = tasks.c.taskid, tasks.c.lastcrawltime
        some = select(*columns).where(ended).limit(LOOKED_AT).subquery()
        crawled = some.c.lastcrawltime
        query = select(some.c.taskid).where(crawled.is_not(None)).order_by(crawled.desc())
        return [taskid for (taskid,) in self._all(query.limit(limit))]

    def _count(self, tasks: Any, status: int, after: Any, limit: int) -> tuple[int, Any]:
        page = _page(tasks, [tasks.c.taskid], status, after, limit).subquery()
        ((count, last),) = self._all(select(func.count(), func.max(page.c.taskid)))
        return count, last if count >= limit else None

    def _found(self, project: str) -> Any:
        """Return a project's table for queries, None if it has none."""
        return self._tables.find(project) if project in self.projects() else None

    def _all(self, query: Executable) -> list[Any]:
        return self._read(lambda it: it.execute(query))

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
        to_make = self._made_before(projects_to_make(writes, known))
        self._is_stale = True  # until it is known that no table was missing
        if not self._keeps_failures and any(map(says_failure, writes)):
            self._make_failures()
        with self._transaction() as connection:
            self._check(connection, seals)
            self._make(connection, to_make)
            for group in grouped(map(_with_text, writes), time.time(), self._compared):
                WRITERS[self._dialect](connection, self._quoted, group)
            self._failures.write(connection.exec_driver_sql, writes)
            before_commit()
        known.update(to_make)
        self._is_stale = False

    def drop(
        self,
        projects: Collection[str],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,
        *,
        is_for_good: bool = True,  # noqa: ARG002 - here tables cost nobody else anything
    ) -> None:
        """Drop the tables of projects; see ``TaskDatabase``."""
        self.look_again()  # other processes make tables, and drop them
        there = self.projects().intersection(projects)
        with self._transaction() as connection:
            self._check(connection, seals)
            if inspect(connection).has_table(failure_table.NAME):
                self._failures.drop(connection.exec_driver_sql, projects)
            if self._dialect == "mysql":
                before_commit()
            for project in there:
                self._tables._definition(project).drop(connection, checkfirst=False)
            if self._dialect != "mysql":
                before_commit()
        self.projects().difference_update(there)

    def seal(self, seals: Seals) -> Mapping[int, Any]:
        """Seal slots; see ``TaskDatabase``."""
        try:
            self._connections.create(_table_of_seals())
            with self._transaction() as connection:
                SEALERS[self._dialect](connection, self._quoted(TABLE), seals)
                return seals.others(sealed(connection, self._quoted(TABLE), seals))
        except SQLAlchemyError as error:
            raise SealsUnreadable(f"{TABLE}: {error}") from error

    def ask_failures(self, question: AboutFailures[T]) -> T | None:
        """Ask the table of failures; see ``TaskDatabase``."""
        with self._connections.engine.connect() as connection:
            if not inspect(connection).has_table(failure_table.NAME):
                return None
            return question(
                self._failures,
                lambda query, values: connection.exec_driver_sql(query, tuple(values)),
            )

    def _make_failures(self) -> None:
        """Make the table of failures and its indexes, unless they are there."""
        table = _table_of_failures()
        self._connections.create(table)
        for index in table.indexes:
            index.create(self._connections.engine, checkfirst=True)
        self._keeps_failures = True

    @cached_property
    def _failures(self) -> FailureTable:
        mark = "?" if self._dialect == "sqlite" else "%s"
        return FailureTable(self._quoted(failure_table.NAME), mark, self._dialect)

    def _check(self, connection: Connection, seals: Seals) -> None:
        try:
            found = sealed(connection, self._quoted(TABLE), seals)
        except SQLAlchemyError as error:
            raise SealsUnreadable(f"{TABLE}: {error}") from error
        seals.check(found)

    def _quote(self, name: str) -> str:
        return str(self._connections.engine.dialect.identifier_preparer.quote_identifier(name))

    def _compared(self, taskid: str) -> str:
        return taskid.rstrip(" ") if self._dialect == "mysql" else taskid

    def _made_before(self, projects: list[str]) -> list[str]:
        """Make tables where that would commit a transaction; return the projects left to do."""
        if self._dialect != "mysql":
            return projects
        for project in projects:
            self._tables.find_or_make(project)
        return []

    def _make(self, connection: Connection, projects: list[str]) -> None:
        for project in projects:
            check_name(project, self._dialect)
            self._tables._definition(project).create(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._connections.engine.connect() as connection:
            _limit_idleness(connection)
            connection.execution_options(isolation_level=self._level)
            with connection.begin() as transaction:
                try:
                    if self._dialect == "sqlite":  # its driver would begin after the tables
                        connection.exec_driver_sql("BEGIN IMMEDIATE")
                    yield connection
                except BaseException:
                    with suppress(DBAPIError):  # then it is lost: the server does the same
                        transaction.rollback()
                    raise


def _page(tasks: Any, columns: Sequence[Any], status: int | None, after: Any, limit: int) -> Any:
    """Return a query for rows, in one state or all, in the order of the index if there is one."""
    query = select(*columns)
    if status is not None:
        query = query.where(tasks.c.status == status)
    if after is not None:
        query = query.where(tasks.c.taskid > after)
    return query.order_by(tasks.c.taskid).limit(limit)


def _table_of_seals() -> Table:
    return Table(
        TABLE,
        MetaData(),
        Column("cluster", KEY, primary_key=True),
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("epoch", BigInteger, nullable=False),
        **MYSQL,
    )


def _table_of_failures() -> Table:
    kinds = {str: TEXT, int: Integer(), bool: Integer(), float: NUMBER}
    kept = {"kind": String(KIND_LENGTH), "callback": String(CALLBACK_LENGTH)}
    columns = [
        Column(name, kept.get(name, kinds[kind]), nullable=False)
        for name, kind in get_type_hints(FailedTask).items()
        if name not in ("project", "taskid")
    ]
    keys = [Column(name, KEY, primary_key=True) for name in ("project", "taskid")]
    indexes = [
        Index(f"{failure_table.NAME}-{number}", *names)
        for number, names in enumerate(failure_table.INDEXES)
    ]
    return Table(failure_table.NAME, MetaData(), *keys, *columns, *indexes, **MYSQL)


def _limit_idleness(connection: Connection) -> None:
    """Let the server end a transaction whose process is suspended: others wait for its locks."""
    dialect = connection.dialect
    name = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    if name in IDLE_LIMITS and not connection.info.get(IDLE_LIMITS[name]):
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(IDLE_LIMITS[name])
        connection.info[IDLE_LIMITS[name]] = True


def _with_text(write: TaskWrite) -> TaskWrite:
    """Return a write whose task id is text; a script may take a number for it."""
    return write if isinstance(write.taskid, str) else replace(write, taskid=str(write.taskid))


def _alike(
    missing: set[str], found: set[str], ask: Callable[[Sequence[str]], Iterator[Found]]
) -> Iterator[Found]:
    """Yield rows whose ids equal a missing one for MySQL, with the missing one.

    It ignores spaces at an id's end, and in tables of before the difference of cases.
    """
    for taskid in missing:
        if _folded(taskid) in found:
            yield from ((taskid, row) for _, row in ask([taskid]))


def _folded(taskid: str) -> str:
    return taskid.rstrip(" ").casefold()
