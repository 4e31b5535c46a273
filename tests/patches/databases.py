"""Databases for the tests of pyspider's backends: on real servers, empty ones for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from tests.support.database_servers import DatabaseServer

FILES = ("sqlite", "sqlalchemy+sqlite")
SERVERS = {
    "sqlalchemy+postgresql": ("postgresql", pytest.mark.postgresql),
    "mysql": ("mariadb", pytest.mark.mariadb),
    "sqlalchemy+mysql+mysqlconnector": ("mariadb", pytest.mark.mariadb),
}
"""Schemes of URLs, each with the fixture of its server, and the marker of its tests."""

BACKENDS = [*FILES, *(pytest.param(name, marks=mark) for name, (_, mark) in SERVERS.items())]
OF_SERVERS = [pytest.param(name, marks=mark) for name, (_, mark) in SERVERS.items()]


class Databases:
    """The databases of one test: those of one kind share their rows.

    Args:
        scheme: of the backend.
        folder: for files.
        server: what it runs on; None: it needs none.
    """

    def __init__(self, scheme: str, folder: Path, server: DatabaseServer | None) -> None:
        self.scheme = scheme
        self.server = server
        self._folder = folder
        self._names = {kind: server.new_name() for kind in ("task", "project", "result") if server}
        self._opened = ExitStack()

    def url(self, kind: str) -> str:
        """Return the URL of a database: ``task``, ``project`` or ``result``."""
        if self.server is None:
            return f"{self.scheme}+{kind}db:///{self._folder}/{kind}.db"
        return self.server.url(kind, self._names[kind], self.scheme)

    def connect(self, kind: str) -> Any:
        """Return a connection of its own; the end of the test closes it."""
        database = connect_database(self.url(kind))
        if hasattr(database, "close"):
            self._opened.callback(database.close)
        return database

    def make(self, kind: str) -> None:
        """Make an empty database on the server; else the first connection makes it."""
        assert self.server
        self.server.execute(f"CREATE DATABASE {self._names[kind]}")

    def close(self) -> None:
        """Close what was opened, and drop what was made on the server."""
        self._opened.close()
        for name in self._names.values():
            assert self.server
            self.server.execute(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture
def databases(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[str], Databases]]:
    """Give a function that makes the databases of a backend."""
    with ExitStack() as stack:

        def make(scheme: str) -> Databases:
            fixture, _ = SERVERS.get(scheme, ("", None))
            server = request.getfixturevalue(fixture) if fixture else None
            return stack.enter_context(closing(Databases(scheme, tmp_path, server)))

        yield make


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, databases: Callable[[str], Databases]) -> Databases:
    """Give the databases of each backend in turn."""
    return databases(request.param)


@pytest.fixture(params=OF_SERVERS)
def server_backend(
    request: pytest.FixtureRequest, databases: Callable[[str], Databases]
) -> Databases:
    """Give the databases of each backend in turn that has a server."""
    return databases(request.param)
