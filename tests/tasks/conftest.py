"""pyspider's task databases and their bulk interface, on every backend."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from pyspider.database.sqlite import taskdb as sqlite

from pyspider_zk.tasks import failure_table
from pyspider_zk.tasks.database import TaskDatabase, TaskWrite, task_database
from pyspider_zk.tasks.seals import TABLE
from tests.patches.databases import BACKENDS, OF_SERVERS, SERVERS, Databases
from tests.patches.test_patched_servers import run
from tests.support.database_servers import DatabaseServer


@dataclass(frozen=True)
class Opened:
    """One connection: pyspider's own object, and the bulk interface of it."""

    taskdb: Any
    bulk: TaskDatabase

    def write(self, *writes: TaskWrite) -> None:
        self.bulk.write_many(writes, lambda: None)

    def new(self, project: str, taskid: str, columns: Mapping[str, Any]) -> TaskWrite:
        return TaskWrite(project, taskid, self.bulk.encoded(columns), is_new=True)

    def changed(self, project: str, taskid: str, columns: Mapping[str, Any]) -> TaskWrite:
        return TaskWrite(project, taskid, self.bulk.encoded(columns), is_new=False)

    def execute(self, statement: str) -> None:
        """Carry out a statement as somebody with another program would."""
        if isinstance(self.taskdb, sqlite.TaskDB):
            self.taskdb._execute(statement)
        else:
            run(self.taskdb, statement)

    def raw(self, project: str) -> list[list[Any]]:
        """Return all rows as they are stored, but for their time of update."""
        cursor = "SELECT * FROM {}".format
        if isinstance(self.taskdb, sqlite.TaskDB):
            found = self.taskdb._execute(cursor(f"taskdb_{project}")).fetchall()
        else:
            with self.taskdb._connections.engine.connect() as connection:
                found = connection.exec_driver_sql(cursor(project)).fetchall()
        return sorted(([*row][:-1] for row in found), key=repr)


@dataclass(frozen=True)
class TaskBackend:
    """The task databases of one backend, which are empty when a test begins."""

    name: str
    url: str
    server: DatabaseServer | None
    ours: Opened
    theirs: Opened

    @property
    def seals(self) -> str:
        """The table of seals, quoted."""
        return self.quoted(TABLE)

    def quoted(self, table: str) -> str:
        return f"`{table}`" if self.dialect in ("sqlite", "sqlalchemy mysql") else f'"{table}"'

    @property
    def dialect(self) -> str:
        """Whose rules hold: ``sqlite`` of pyspider's, or the dialect on SQLAlchemy."""
        connections = getattr(self.ours.taskdb, "_connections", None)
        return f"sqlalchemy {connections.dialect}" if connections else "sqlite"


def opened(databases: Databases) -> Opened:
    taskdb = databases.connect("task")
    return Opened(taskdb, task_database(taskdb))


@pytest.fixture(scope="module")
def make_backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], TaskBackend]]:
    """Give a function that makes a backend, with two connections to one database, once."""
    with ExitStack() as stack:

        @cache
        def make(name: str, which: str = "") -> TaskBackend:  # noqa: ARG001 - one of each
            fixture, _ = SERVERS.get(name, ("", None))
            server = request.getfixturevalue(fixture) if fixture else None
            databases = Databases(name, tmp_path_factory.mktemp("tasks"), server)
            stack.enter_context(closing(databases))
            pair = (opened(databases) for _ in range(2))
            return TaskBackend(name, databases.url("task"), server, *pair)

        yield make


def each_of(names: list[Any]) -> Any:
    """Return a fixture that gives backends in turn, in which there is no project."""

    @pytest.fixture(params=names)
    def empty(
        request: pytest.FixtureRequest, make_backend: Callable[[str], TaskBackend]
    ) -> Iterator[TaskBackend]:
        made = make_backend(request.param)
        yield made
        for each in (made.ours.taskdb, made.theirs.taskdb):
            vars(each).pop("patience", None)  # which a test may have set
            each._list_project()
            for project in list(each.projects):
                each.drop(project)
        for table in (TABLE, failure_table.NAME):
            made.ours.execute(f"DROP TABLE IF EXISTS {made.quoted(table)}")

    return empty


backend = each_of(BACKENDS)
transactional_tables = each_of(["sqlite", "sqlalchemy+sqlite", OF_SERVERS[0]])
locking = each_of(["sqlite", *OF_SERVERS])
typed = each_of(["sqlalchemy+sqlite", *OF_SERVERS])
on_server = each_of(OF_SERVERS)
untyped = each_of(["sqlite"])
typeless = each_of(["sqlite", "sqlalchemy+sqlite"])


@pytest.fixture
def ours(backend: TaskBackend) -> Opened:
    return backend.ours
