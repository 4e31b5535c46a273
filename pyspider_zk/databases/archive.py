"""Archive: tables of our own beside the projects, for what is looked up weeks later."""

from functools import cached_property
from typing import Any

from pyspider.database.sqlalchemy.connections import Connections
from pyspider.database.sqlite.projectdb import ProjectDB
from sqlalchemy import Executable, Table
from sqlalchemy.exc import SQLAlchemyError

from pyspider_zk.errors import Unavailable

BY_SQLALCHEMY = "pyspider.database.sqlalchemy.projectdb"


class Archive:
    """Some tables in the database that has the projects; they are made if they are missing.

    Threads: any; calls block for the database. Each statement is a transaction of its own. Nothing
    is connected before the first.

    Args:
        projectdb: pyspider's.
        tables: with names that begin with ``pyspider-zk-``.
    """

    def __init__(self, projectdb: Any, *tables: Table) -> None:
        self._projectdb = projectdb
        self._tables = tables

    def rows(self, statement: Executable) -> list[dict[str, Any]]:
        """Return the rows of a query; raise ``Unavailable`` if there is no answer."""
        try:
            found: list[dict[str, Any]] = self._connections.rows(statement)
        except SQLAlchemyError as error:
            raise _away(error) from error
        return found

    def change(self, statement: Executable) -> int:
        """Change rows; return how many. Raise ``Unavailable`` if there is no answer."""
        try:
            return int(self._connections.change(statement))
        except SQLAlchemyError as error:
            raise _away(error) from error

    def close(self) -> None:
        """Close its connections."""
        if own := vars(self).pop("_connections", None):
            own.close()

    @cached_property
    def _connections(self) -> Any:
        connections = _connected(self._projectdb)
        for table in self._tables:
            connections.create(table)
        return connections


def _connected(projectdb: Any) -> Any:
    if type(projectdb) is ProjectDB:
        return Connections(f"sqlite:///{projectdb.path}")
    if type(projectdb).__module__ == BY_SQLALCHEMY:
        return Connections(projectdb._connections.engine.url)
    raise Unavailable(f"a project database of class {type(projectdb).__name__} keeps no archive")


def keeps_archives(projectdb: Any) -> bool:
    """Return whether a project database is of a class that keeps archives."""
    return type(projectdb) is ProjectDB or type(projectdb).__module__ == BY_SQLALCHEMY


def _away(error: SQLAlchemyError) -> Unavailable:
    return Unavailable(f"the project database does not answer: {error}")
