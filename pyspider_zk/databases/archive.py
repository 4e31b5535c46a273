"""Archive: tables of our own beside the projects, for what is looked up weeks later."""

import threading
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy
from pyspider.database.sqlalchemy.connections import Connections
from pyspider.database.sqlite.projectdb import ProjectDB
from sqlalchemy import Executable, Table
from sqlalchemy.exc import SQLAlchemyError

from pyspider_zk.errors import Unavailable, brief

BY_SQLALCHEMY = "pyspider.database.sqlalchemy.projectdb"

PAUSE = 1.0
"""Seconds after a connection that failed in which nobody else waits for one."""

_NEVER = float("-inf"), ""


class Archive:
    """Some tables in the database that has the projects; they are made if they are missing.

    Threads: any; calls block for the database and raise ``Unavailable`` if that cannot be used now.
    Each statement is a transaction of its own. Nothing is connected before the first.

    Args:
        projectdb: pyspider's.
        tables: with names that begin with ``pyspider-zk-``.
    """

    def __init__(self, projectdb: Any, *tables: Table) -> None:
        self._projectdb = projectdb
        self._tables = tables
        self._lock = threading.Lock()  # of the connections while they are made
        self._connections: Any = None
        self._away = _NEVER

    def rows(self, statement: Executable) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        found: list[dict[str, Any]] = self._ask(lambda tables: tables.rows(statement))
        return found

    def change(self, statement: Executable) -> int:
        """Change rows; return how many."""
        return int(self._ask(lambda tables: tables.change(statement)))

    def close(self) -> None:
        """Close its connections; the next statement connects anew."""
        with self._lock:
            self._away = _NEVER
        self._drop_connections()

    def _drop_connections(self) -> None:
        with self._lock:
            own, self._connections = self._connections, None
        if own is not None:
            own.close()

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            return question(self._connected())
        except SQLAlchemyError as error:
            self._drop_connections()  # a table that is gone is made anew
            raise Unavailable(_fault(error)) from error

    def _connected(self) -> Any:
        with self._lock:
            if self._connections is None:
                until, fault = self._away
                if time.monotonic() < until:
                    raise Unavailable(fault)
                try:
                    self._connections = self._connect()
                except SQLAlchemyError as error:
                    self._away = time.monotonic() + PAUSE, _fault(error)
                    raise
            return self._connections

    def _connect(self) -> Any:
        address = _address(self._projectdb)
        if address is None:
            kind = type(self._projectdb).__name__
            raise Unavailable(f"a project database of class {kind} keeps no archive")
        connections = Connections(address)
        for table in self._tables:
            connections.create(table)
        return connections


def keeps_archives(projectdb: Any) -> bool:
    """Return whether a project database is of a class that keeps archives."""
    return _address(projectdb) is not None


def _address(projectdb: Any) -> sqlalchemy.URL | None:
    if type(projectdb) is ProjectDB:
        return sqlalchemy.URL.create("sqlite", database=projectdb.path)
    if type(projectdb).__module__ == BY_SQLALCHEMY:
        url: sqlalchemy.URL = projectdb._connections.engine.url
        return url
    return None


def _fault(error: SQLAlchemyError) -> str:
    """Say why, without the statement, which SQLAlchemy quotes."""
    return f"the archive cannot be used: {brief(error)}"
