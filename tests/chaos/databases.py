"""The databases of a run: files of sqlite, or a PostgreSQL at the hub, which packets must reach."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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
