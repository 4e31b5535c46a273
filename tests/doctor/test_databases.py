"""What the doctor finds about real databases."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from pyspider.database import connect_database

from pyspider_zk.doctor.findings import Grade
from tests.doctor.conftest import Examine, graded
from tests.support.database_servers import PASSWORD, DatabaseServer, MariaServer, PostgresServer

SHORT_URL = "(taskid varchar(64), url varchar(1024))"


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """Give each server."""
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def postgres(postgresql: PostgresServer) -> PostgresServer:
    """Give the server under a shorter name."""
    return postgresql


def made(server: DatabaseServer) -> str:
    """Make a task database as pyspider does; return its name."""
    name = server.new_name()
    connect_database(server.url("task", name))
    return name


def test_a_new_database_is_well(examined: Examine, server: DatabaseServer) -> None:
    url = server.url("task", made(server))

    found = examined("taskdb", databases={"taskdb": url})

    assert {each.grade for each in found} == {Grade.OK}, found
    told = graded(found, Grade.OK)
    assert f"{server.name} 1" in told
    assert "its clock agrees" in told


def test_a_wrong_password_is_refused_and_not_shown(
    examined: Examine, server: DatabaseServer
) -> None:
    url = server.url("task", made(server)).replace(quote(PASSWORD, safe=""), "wrong%20one")

    found = examined("taskdb", databases={"taskdb": url})

    assert "it cannot be used" in graded(found, Grade.FAILED)
    assert "wrong" not in str(found)


def test_a_missing_database_is_told_and_not_made(examined: Examine, server: DatabaseServer) -> None:
    name = server.new_name()
    url = server.url("task", name)

    for _ in range(2):
        assert name in graded(examined("taskdb", databases={"taskdb": url}), Grade.FAILED)


def test_a_table_of_an_old_pyspider_is_warned_of(examined: Examine, server: DatabaseServer) -> None:
    name = made(server)
    url = server.url("task", name)
    if isinstance(server, PostgresServer):
        with psycopg.connect(server.login(name), autocommit=True) as link:
            link.execute(f"CREATE TABLE old_project {SHORT_URL}".encode())
    else:
        server.execute(f"CREATE TABLE {name}.old_project {SHORT_URL}")

    warned = graded(examined("taskdb", databases={"taskdb": url}), Grade.WARNING)

    assert "old_project: made by an old pyspider" in warned


@pytest.mark.postgresql
def test_another_encoding_is_a_failure(examined: Examine, postgres: PostgresServer) -> None:
    name = postgres.new_name()
    postgres.execute(
        f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    found = examined("taskdb", databases={"taskdb": postgres.url("task", name)})
    assert "encoding LATIN1" in graded(found, Grade.FAILED)


@pytest.mark.mariadb
def test_another_character_set_is_a_failure(examined: Examine, mariadb: MariaServer) -> None:
    name = mariadb.new_name()
    mariadb.execute(f"CREATE DATABASE {name} CHARACTER SET latin1")
    found = examined("taskdb", databases={"taskdb": mariadb.url("task", name)})
    assert "encoding latin1" in graded(found, Grade.FAILED)


@pytest.mark.postgresql
def test_a_database_that_accepts_no_writes(examined: Examine, postgres: PostgresServer) -> None:
    name = made(postgres)
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    found = examined("taskdb", databases={"taskdb": postgres.url("task", name)})
    assert "it accepts no writes" in graded(found, Grade.FAILED)
    assert "isolation SERIALIZABLE" in graded(found, Grade.WARNING)


@pytest.mark.postgresql
def test_one_database_for_two_kinds_is_a_failure(
    examined: Examine, postgres: PostgresServer
) -> None:
    urls = {f"{kind}db": postgres.url(kind, "crawl") for kind in ("task", "result")}
    found = examined("settings", databases=urls)
    assert "give each a database of its own" in graded(found, Grade.FAILED)


def sqlite_file(path: Path, wal: bool) -> str:
    with closing(sqlite3.connect(path)) as link:
        link.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
        link.execute("CREATE TABLE some (thing)")
        link.commit()
    path.chmod(0o600)
    return f"sqlite+taskdb:///{path}"


def test_a_file_with_a_log_is_well(examined: Examine, tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "task.db", wal=True)
    found = examined("taskdb", databases={"taskdb": url})
    assert {each.grade for each in found} == {Grade.OK}, found
    assert "write-ahead log" in graded(found, Grade.OK)


def test_a_file_without_a_log_that_others_read(examined: Examine, tmp_path: Path) -> None:
    path = tmp_path / "task.db"
    url = sqlite_file(path, wal=False)
    path.chmod(0o644)

    warned = graded(examined("taskdb", databases={"taskdb": url}), Grade.WARNING)

    assert "no write-ahead log" in warned
    assert "(mode 644)" in warned


def test_a_file_that_is_none_is_a_failure(examined: Examine, tmp_path: Path) -> None:
    path = tmp_path / "task.db"
    path.write_text("this is no database, whatever its name says")
    found = examined("taskdb", databases={"taskdb": f"sqlite+taskdb:///{path}"})
    assert "cannot be read" in graded(found, Grade.FAILED)


def test_a_missing_file_is_not_made(examined: Examine, tmp_path: Path) -> None:
    path = tmp_path / "task.db"
    found = examined("taskdb", databases={"taskdb": f"sqlite+taskdb:///{path}"})
    assert "does not exist" in graded(found, Grade.OK)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_missing_is_a_failure(examined: Examine, tmp_path: Path) -> None:
    url = f"sqlite+taskdb:///{tmp_path}/none/task.db"
    found = examined("taskdb", databases={"taskdb": url})
    assert "is missing or cannot be written" in graded(found, Grade.FAILED)


def test_a_kind_that_is_not_supported(examined: Examine) -> None:
    found = examined("settings", databases={"taskdb": "mongodb+taskdb://127.0.0.1/x"})
    assert "MongoDB is not supported" in graded(found, Grade.FAILED)


def test_a_database_that_is_looked_at_gets_no_files_beside_it(
    examined: Examine, tmp_path: Path
) -> None:
    file = tmp_path / "task.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE taskdb_a (taskid)")

    examined("taskdb", databases={"taskdb": f"sqlite+taskdb:///{file}"})

    assert list(tmp_path.iterdir()) == [file]
