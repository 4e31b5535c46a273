"""What a database server raises: its own absence opens the breaker, a bad row does not."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded, is_certain
from pyspider_zk.errors import DatabaseAway
from tests.patches.databases import SERVERS, Databases
from tests.support.clock import Clock
from tests.support.database_servers import DatabaseServer, PostgresServer

TASK = {"url": "http://a/", "status": 1}
KINDS = ("task", "project", "result")
PAUSE = 10.0  # seconds; longer than any of a breaker's
RAISE = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'held' USING ERRCODE = '{}'; END $$",
    "mariadb": "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {}, MESSAGE_TEXT = 'held'",
}
CODES: dict[str, dict[str | int, bool]] = {
    "postgresql": {
        **dict.fromkeys(["55P03", "40P01", "40001", "53100", "53200", "53300", "58030"], True),
        **dict.fromkeys(["23505", "P0001"], False),
    },
    "mariadb": {
        **dict.fromkeys([1205, 1206, 1213, 1021, 1026, 1114], True),
        **dict.fromkeys([1062, 1644], False),
    },
}
"""Errors that servers tell, and whether something other than the request is their cause."""

RAISED = [
    pytest.param(scheme, code, is_outage, marks=marker)
    for scheme, (fixture, marker) in SERVERS.items()
    for code, is_outage in CODES[fixture].items()
]


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


@pytest.mark.slow
def test_the_pauses_grow_while_a_row_is_locked_although_the_server_answers(
    databases: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    breaker = Breaker("taskdb", clock)
    guarded = Guarded(databases["task"], breaker)
    pauses = []
    with databases["task"]._connections.engine.connect() as other:
        other.execution_options(isolation_level="READ COMMITTED")
        other.exec_driver_sql("UPDATE p SET status = 3 WHERE taskid = 't'")
        for _ in range(3):
            with pytest.raises(DatabaseAway):
                write("task", guarded)
            pauses.append(round(breaker.left, 3))
            clock.now += breaker.left
    assert pauses == [0.1, 0.2, 0.4]
    write("task", guarded)
    assert not breaker.is_open
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize(("scheme", "code", "is_outage"), RAISED)
def test_what_others_hold_or_fill_is_an_outage_though_the_server_answers(
    scheme: str,
    code: str | int,
    is_outage: bool,
    is_wrapped: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    fixture, _ = SERVERS[scheme]
    with closing(Databases(scheme, tmp_path, request.getfixturevalue(fixture))) as made:
        database, breaker = made.connect("task"), Breaker("taskdb")
        with database._connections.engine.connect() as link:
            ask = link.exec_driver_sql if is_wrapped else link.connection.cursor().execute
            with pytest.raises(DatabaseAway if is_outage else Exception):
                Guarded(database, breaker).ask(partial(ask, RAISE[fixture].format(code)))
        assert breaker.is_open == is_outage


def test_the_number_of_another_error_is_no_code() -> None:
    assert not is_certain(KeyError(1205))


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
