"""Raw databases: what is written here is past pyspider's code, which would check it."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import psycopg
from pyspider.database.sqlalchemy.resultdb import COLUMNS as RESULT_COLUMNS
from pyspider.database.sqlalchemy.tables import JSON
from pyspider.database.sqlalchemy.taskdb import COLUMNS as TASK_COLUMNS
from sqlalchemy import Column, MetaData, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tests.support.crawling_cluster import CrawlingCluster

_COLUMNS = {"task": TASK_COLUMNS, "result": RESULT_COLUMNS}
_KEEP_OUT = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.DatatypeMismatch,
    UnicodeEncodeError,  # half of a character
)
_PATIENCE = 20  # seconds that somebody else may have it locked


class KeptOutError(Exception):
    """The database itself does not take something, so that nobody can meet it there."""


class RawDatabases(Protocol):
    """The databases of a cluster, by ``task``, ``project`` and ``result``."""

    def execute(self, kind: str, sql: str, values: Sequence[object] = ()) -> list[Sequence[Any]]:
        """Carry out a statement whose values are marked by ``?``, and return its rows.

        Raises:
            KeptOutError: the database does not take it.
        """

    def insert(self, kind: str, table: str, row: Mapping[str, object]) -> None:
        """Insert a row, whatever is in it.

        Raises:
            KeptOutError: the database does not take it.
        """

    def table(self, kind: str, project: str) -> str:
        """Return the name of the table of a project's tasks or results."""

    def make_table(self, kind: str, project: str) -> None:
        """Make the table of a project's tasks or results, as pyspider does, if there is none."""

    def tables(self, kind: str) -> list[str]:
        """Return the names of all tables."""

    def close(self) -> None:
        """Let connections go."""


class SqliteFiles:
    """Files of sqlite: a column takes whatever it is given."""

    def __init__(self, cluster: CrawlingCluster) -> None:
        self._cluster = cluster
        self._links: dict[str, sqlite3.Connection] = {}

    def execute(self, kind: str, sql: str, values: Sequence[object] = ()) -> list[Sequence[Any]]:
        """Carry out a statement; text comes as bytes, for it may be none."""
        return self._link(kind).execute(sql, tuple(values)).fetchall()

    def insert(self, kind: str, table: str, row: Mapping[str, object]) -> None:
        """Insert a row."""
        self.execute(kind, _insertion(table, row), list(row.values()))

    def table(self, kind: str, project: str) -> str:
        """Return the name of a project's table."""
        return f"{kind}db_{project}"

    def make_table(self, kind: str, project: str) -> None:
        """Make a project's table."""
        names = ", ".join(_COLUMNS[kind])
        table = quoted(self.table(kind, project))
        self.execute(kind, f"CREATE TABLE IF NOT EXISTS {table} ({names})")

    def tables(self, kind: str) -> list[str]:
        """Return the names of all tables."""
        return [text(name) for (name,) in self.execute(kind, "SELECT name FROM sqlite_master")]

    def close(self) -> None:
        """Close the connections."""
        for link in self._links.values():
            link.close()

    def _link(self, kind: str) -> sqlite3.Connection:
        """Return a connection: each one reads the definitions of all tables first."""
        if kind not in self._links:
            file = self._cluster.file(kind)
            self._links[kind] = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
            self._links[kind].text_factory = bytes
        return self._links[kind]


class PostgresDatabases:
    """Databases of a PostgreSQL: a column takes what is of its type."""

    def __init__(self, cluster: CrawlingCluster) -> None:
        self._cluster = cluster
        self._links: dict[str, psycopg.Connection[Any]] = {}

    def execute(self, kind: str, sql: str, values: Sequence[object] = ()) -> list[Sequence[Any]]:
        """Carry out a statement."""
        statement = sql.replace("%", "%%").replace("?", "%s").encode()
        try:
            found = self._link(kind).execute(statement, values)
        except _KEEP_OUT as error:
            raise KeptOutError(str(error)) from None
        return found.fetchall() if found.description else []

    def close(self) -> None:
        """Close the connections."""
        for link in self._links.values():
            link.close()

    def insert(self, kind: str, table: str, row: Mapping[str, object]) -> None:
        """Insert a row; documents are bytes."""
        columns = _COLUMNS.get(kind, {})
        values = [
            value.encode("utf-8", "surrogatepass")
            if isinstance(value, str) and columns.get(name) is JSON
            else value
            for name, value in row.items()
        ]
        self.execute(kind, _insertion(table, row), values)

    def table(self, kind: str, project: str) -> str:  # noqa: ARG002 - a database for each kind
        """Return the name of a project's table."""
        return project

    def make_table(self, kind: str, project: str) -> None:
        """Make a project's table."""
        columns = [
            Column(name, of, primary_key=name == "taskid") for name, of in _COLUMNS[kind].items()
        ]
        table = Table(self.table(kind, project), MetaData(), *columns)
        made = CreateTable(table, if_not_exists=True).compile(dialect=postgresql.dialect())
        self.execute(kind, str(made))

    def tables(self, kind: str) -> list[str]:
        """Return the names of all tables."""
        found = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return [name for (name,) in self.execute(kind, found)]

    def _link(self, kind: str) -> "psycopg.Connection[Any]":
        if kind not in self._links:
            login = self._cluster.server.login(self._cluster.server_database(kind))
            self._links[kind] = psycopg.connect(login, autocommit=True)
            self._links[kind].execute(f"SET lock_timeout = '{_PATIENCE}s'".encode())
        return self._links[kind]


def raw_databases(cluster: CrawlingCluster) -> RawDatabases:
    """Return the databases of a cluster."""
    return PostgresDatabases(cluster) if cluster.has_server else SqliteFiles(cluster)


def _insertion(table: str, row: Mapping[str, object]) -> str:
    names, marks = ", ".join(map(quoted, row)), ", ".join("?" * len(row))
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"  # noqa: S608 - our own names


def quoted(name: str) -> str:
    """Return a name for a statement."""
    return '"{}"'.format(name.replace('"', '""'))


def text(value: object) -> str:
    """Return what a database holds as text, whatever it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def project_tables(databases: RawDatabases, kind: str) -> Iterable[tuple[str, str]]:
    """Return project and quoted table of all tables of projects."""
    prefix = databases.table(kind, "")
    names = [name for name in databases.tables(kind) if name.startswith(prefix)]
    return [(name.removeprefix(prefix), quoted(name)) for name in names]
