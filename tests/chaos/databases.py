"""The databases of a run: files of sqlite, or a PostgreSQL at the hub, which packets must reach."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pyspider.database import connect_database

from tests.chaos.network import HUB_ADDRESS
from tests.support.database_servers import PostgresServer


class DatabaseUrls(Protocol):
    """Where the databases of a run are."""

    def url(self, kind: str) -> str:
        """Return pyspider's URL of a database: ``task``, ``project`` or ``result``."""


class Files:
    """A file for each database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, kind: str) -> str:
        """Return pyspider's URL of a database."""
        return f"sqlite+{kind}db:///{self._folder}/{kind}.db"


class AtServer:
    """Databases of a server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = server.new_name()

    def url(self, kind: str) -> str:
        """Return pyspider's URL of a database."""
        return self._server.url(kind, f"{self._name}_{kind}")


@contextmanager
def postgresql() -> Iterator[DatabaseUrls]:
    """Run a PostgreSQL at the hub while the block runs."""
    server = PostgresServer(host=HUB_ADDRESS)
    try:
        with server:
            yield AtServer(server)
    finally:
        server.remove()


@contextmanager
def sqlite(folder: Path) -> Iterator[DatabaseUrls]:
    """Keep files in a folder."""
    yield Files(folder)


@contextmanager
def connected(databases: DatabaseUrls, kind: str) -> Iterator[Any]:
    """Lend a connection of pyspider's to a database."""
    database = connect_database(databases.url(kind))
    try:
        yield database
    finally:
        if hasattr(database, "close"):
            database.close()
        elif database.conn is not None:  # sqlite's, which connects when it is first asked
            database.conn.close()
