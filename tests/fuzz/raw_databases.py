"""Raw databases: what is written here is past pyspider's code, which would check it."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


class RawDatabases:
    """Files of sqlite, by ``task``, ``project`` and ``result``; a column takes what it is given."""

    def __init__(self, cluster: CrawlingCluster) -> None:
        self._cluster = cluster
        self._links: dict[str, Any] = {}

    def execute(self, kind: str, sql: str, values: Sequence[object] = ()) -> list[Sequence[Any]]:
        """Carry out a statement whose values are marked by ``?``, and return its rows.

        Of files text comes as bytes, for it may be none.

        Raises:
            KeptOutError: the database does not take it.
        """
        return list(self._link(kind).execute(sql, tuple(values)).fetchall())

    def insert(self, kind: str, table: str, row: Mapping[str, object]) -> None:
        """Insert a row, whatever is in it.

        Raises:
            KeptOutError: the database does not take it.
        """
        names, marks = ", ".join(map(quoted, row)), ", ".join("?" * len(row))
        statement = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"  # noqa: S608 - ours
        self.execute(kind, statement, list(row.values()))

    def table(self, kind: str, project: str) -> str:
        """Return the name of the table of a project's tasks or results."""
        return f"{kind}db_{project}"

    def make_table(self, kind: str, project: str) -> None:
        """Make the table of a project's tasks or results, as pyspider does, if there is none."""
        names = ", ".join(_COLUMNS[kind])
        table = quoted(self.table(kind, project))
        self.execute(kind, f"CREATE TABLE IF NOT EXISTS {table} ({names})")

    def tables(self, kind: str) -> list[str]:
        return [text(name) for (name,) in self.execute(kind, "SELECT name FROM sqlite_master")]

    def close(self) -> None:
        """Let connections go."""
        for link in self._links.values():
            link.close()

    def _link(self, kind: str) -> Any:
        """Return a connection: each one reads the definitions of all tables first."""
        if kind not in self._links:
            self._links[kind] = self._connect(kind)
        return self._links[kind]

    def _connect(self, kind: str) -> Any:
        file = self._cluster.file(kind)
        link = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
        link.text_factory = bytes
        return link


class PostgresDatabases(RawDatabases):
    """Databases of a PostgreSQL: a column takes what is of its type."""

    def execute(self, kind: str, sql: str, values: Sequence[object] = ()) -> list[Sequence[Any]]:
        """Carry out a statement."""
        statement = sql.replace("%", "%%").replace("?", "%s").encode()
        try:
            found = self._link(kind).execute(statement, values)
        except _KEEP_OUT as error:
            raise KeptOutError(str(error)) from None
        return found.fetchall() if found.description else []

    def insert(self, kind: str, table: str, row: Mapping[str, object]) -> None:
        """Insert a row; documents are bytes."""
        columns = _COLUMNS.get(kind, {})
        as_bytes = {
            name: value.encode("utf-8", "surrogatepass")
            for name, value in row.items()
            if isinstance(value, str) and columns.get(name) is JSON
        }
        super().insert(kind, table, {**row, **as_bytes})

    def table(self, kind: str, project: str) -> str:  # noqa: ARG002 - a database for each kind
        """Return the name of a project's table."""
        return project

    def make_table(self, kind: str, project: str) -> None:
        columns = [
            Column(name, of, primary_key=name == "taskid") for name, of in _COLUMNS[kind].items()
        ]
        table = Table(self.table(kind, project), MetaData(), *columns)
        made = CreateTable(table, if_not_exists=True).compile(dialect=postgresql.dialect())
        self.execute(kind, str(made))

    def tables(self, kind: str) -> list[str]:
        found = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return [name for (name,) in self.execute(kind, found)]

    def _connect(self, kind: str) -> Any:
        login = self._cluster.server.login(self._cluster.server_database(kind))
        link = psycopg.connect(login, autocommit=True)
        link.execute(f"SET lock_timeout = '{_PATIENCE}s'".encode())
        return link


def raw_databases(cluster: CrawlingCluster) -> RawDatabases:
    return (PostgresDatabases if cluster.has_server else RawDatabases)(cluster)


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
