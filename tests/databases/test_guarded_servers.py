"""What a database server raises: its own absence opens the breaker, a bad row does not."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import DatabaseAway
from tests.support.clock import Clock
from tests.support.database_servers import DatabaseServer, PostgresServer

TASK = {"url": "http://a/", "status": 1}
KINDS = ("task", "project", "result")
PAUSE = 10.0  # seconds; longer than any of a breaker's


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def databases(server: DatabaseServer) -> Iterator[dict[str, Any]]:
    """Give a database of each kind, with one row."""
    names = {kind: server.new_name() for kind in KINDS}
    made = {kind: connect_database(server.url(kind, name)) for kind, name in names.items()}
    made["task"].insert("p", "t", TASK)
    made["project"].insert("p", {"status": "STOP"})
    made["result"].save("p", "t", "u", 1)
    yield made
    for kind, name in names.items():
        made[kind].close()
        server.execute(f"DROP DATABASE {name}")


def write(kind: str, database: Any) -> None:
    {
        "task": lambda: database.update("p", "t", status=2),
        "project": lambda: database.update("p", status="TODO"),
        "result": lambda: database.save("p", "t", "u", 2),
    }[kind]()


@pytest.mark.slow
def test_a_server_that_is_stopped_is_away_and_comes_back(
    server: DatabaseServer, databases: dict[str, Any]
) -> None:
    clock = Clock()
    guarded = {kind: Guarded(each, Breaker(kind, clock)) for kind, each in databases.items()}
    server.stop()
    try:
        for _ in range(2):
            for kind, database in guarded.items():
                with pytest.raises(DatabaseAway):
                    write(kind, database)
            clock.now += PAUSE
    finally:
        server.start()
    for kind, database in guarded.items():
        write(kind, database)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("put", ["NUL", "too long", "no text", "surrogate"])
def test_a_bad_row_is_no_outage(kind: str, put: str, databases: dict[str, Any]) -> None:
    breaker = Breaker(kind)
    guarded = Guarded(databases[kind], breaker)
    key = {"NUL": "a\x00b", "too long": "x" * 300, "no text": {"a": 1}, "surrogate": "\ud800"}[put]
    try:
        {
            "task": lambda: guarded.insert("p", key, TASK),
            "project": lambda: guarded.insert(key, {"status": "STOP"}),
            "result": lambda: guarded.save("p", key, "u", 1),
        }[kind]()
    except DatabaseAway:
        pytest.fail("a bad row was taken for an outage")
    except Exception:
        assert not breaker.is_open
    write(kind, guarded)


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_only_reads_is_away(kind: str, postgresql: PostgresServer) -> None:
    name = postgresql.new_name()
    database = connect_database(postgresql.url(kind, name))
    {
        "task": lambda: database.insert("p", "t", TASK),
        "project": lambda: database.insert("p", {"status": "STOP"}),
        "result": lambda: database.save("p", "t", "u", 1),
    }[kind]()
    clock = Clock()
    guarded = Guarded(database, Breaker(kind, clock))
    postgresql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    postgresql.end_connections()
    with pytest.raises(DatabaseAway):
        write(kind, guarded)
    postgresql.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    postgresql.end_connections()
    clock.now += PAUSE
    write(kind, guarded)
    database.close()
    postgresql.execute(f"DROP DATABASE {name}")
