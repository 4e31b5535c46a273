"""Database servers as they are met: with old tables, TLS, and settings of their own."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspider.database import connect_database

from tests.patches.databases import Databases
from tests.support.database_servers import DatabaseServer, MariaServer, PostgresServer
from tests.support.secured_servers import NAME, Authority, authority

OLD = {
    "postgresql": """CREATE TABLE {} (
        taskid VARCHAR(64) NOT NULL PRIMARY KEY, project VARCHAR(64), url VARCHAR(1024),
        status INTEGER, schedule BYTEA, "fetch" BYTEA, process BYTEA, track BYTEA,
        lastcrawltime FLOAT(32), updatetime FLOAT(32))""",
    "mysql": """CREATE TABLE {} (
        `taskid` varchar(64) PRIMARY KEY, `project` varchar(64), `url` varchar(1024),
        `status` int(1), `schedule` BLOB, `fetch` BLOB, `process` BLOB, `track` BLOB,
        `lastcrawltime` double(16, 4), `updatetime` double(16, 4),
        INDEX `status_index` (`status`)) ENGINE=InnoDB CHARSET=utf8""",
}
"""What pyspider made before."""

WIDER = {
    "postgresql": "ALTER TABLE {} ALTER url TYPE text",
    "mysql": "ALTER TABLE {} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,"
    " MODIFY `url` LONGTEXT, MODIFY `fetch` LONGBLOB, MODIFY `process` LONGBLOB,"
    " MODIFY `schedule` LONGBLOB, MODIFY `track` LONGBLOB",
}
"""What docs/how-to/databases.md has against their lengths."""

TASK = {"url": "http://a/", "status": 1, "schedule": {"priority": 1}, "track": {}}
LARGE = {"url": "http://a/" + "x" * 2000 + "\U0001f577", "status": 1, "track": {"x": "y" * 70_000}}


def run(taskdb: Any, statement: str) -> None:
    """Carry out a statement in a database of pyspider's."""
    with taskdb._connections.engine.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is old in old tables
        connection.exec_driver_sql(statement)


@pytest.fixture
def old(server_backend: Databases) -> Any:
    """Give a task database with an old table for the project p1."""
    taskdb = server_backend.connect("task")
    run(taskdb, OLD[taskdb._connections.dialect].format("p1"))
    return taskdb


def test_tables_of_before_are_used(old: Any) -> None:
    assert old.get_task("p1", "t1") is None
    old.insert("p1", "t1", TASK)
    old.update("p1", "t1", status=2)
    (found,) = old.load_tasks(2, "p1", ["url", "schedule"])
    assert found == {"url": "http://a/", "schedule": {"priority": 1}}
    assert old.status_count("p1") == {2: 1}


@pytest.fixture(params=["", "ANSI"])
def lenient(old: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a database with an old table, on a server that cuts what is too long, if it can."""
    of_server = "SET GLOBAL sql_mode = {}".format
    if old._connections.dialect == "mysql":
        run(old, of_server(f"'{request.param}'"))
    again = old.copy()
    yield again
    again.close()
    if old._connections.dialect == "mysql":
        run(old, of_server("DEFAULT"))


def test_what_an_old_table_has_no_room_for_is_refused_not_cut(lenient: Any) -> None:
    with pytest.raises(Exception, match=r"(?i)too long") as refused:
        lenient.insert("p1", "t1", {**TASK, "url": "http://a/" + "x" * 2000})
    assert type(refused.value).__name__ == "DataError"
    assert "xxxxx" not in str(refused.value)
    assert lenient.get_task("p1", "t1") is None


def test_the_documented_statement_makes_room(old: Any) -> None:
    run(old, WIDER[old._connections.dialect].format("p1"))
    old.insert("p1", "t1", LARGE)
    assert old.get_task("p1", "t1", list(LARGE)) == LARGE


def test_those_statements_are_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs/how-to/databases.md").read_text("utf-8")
    text = " ".join(word for word in page.split() if word not in ("--", "MySQL,", "MariaDB"))
    for quotes, statement in zip('"`', WIDER.values(), strict=True):
        assert statement.format(f"{quotes}news_de{quotes}") in text


NAMES = ["a%b", 'a"b', "a`b", "a b", "é", "select", "x' --"]


@pytest.mark.parametrize("name", NAMES)
def test_a_database_is_made_whatever_it_is_called(server_backend: Databases, name: str) -> None:
    server, scheme = server_backend.server, server_backend.scheme
    assert server
    project = connect_database(server.url("project", quote(name), scheme))
    project.insert("p1", {"status": "STOP"})
    project.close()
    again = connect_database(server.url("project", quote(name), scheme))
    assert [row["name"] for row in again.get_all()] == ["p1"]
    again.drop("p1")
    again.close()


# --- TLS ----------------------------------------------------------------------------------------

BY_TLS = {PostgresServer: "sslmode=verify-full&sslrootcert={}", MariaServer: "ssl_ca={}"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """Give two authorities; the servers show a certificate of the first."""
    return authority(tmp_path_factory.mktemp("ours")), authority(tmp_path_factory.mktemp("other"))


@pytest.fixture(
    params=[
        pytest.param(PostgresServer, marks=pytest.mark.postgresql),
        pytest.param(MariaServer, marks=pytest.mark.mariadb),
    ],
    ids=lambda kind: kind.name,
)
def by_tls(
    request: pytest.FixtureRequest, certificates: tuple[Authority, Authority]
) -> Iterator[Callable[[Path], str]]:
    """Run a server that speaks TLS; give what makes a URL that verifies it by an authority."""
    server: DatabaseServer = request.param(certificates[0].server)
    with server:
        name = server.new_name()

        def url(ca: Path) -> str:
            plain = server.url("task", name).replace("127.0.0.1", NAME)
            return f"{plain}?{BY_TLS[request.param].format(quote(str(ca)))}"

        yield url
    server.remove()


def test_tls_is_spoken_and_the_certificate_verified(
    by_tls: Callable[[Path], str], certificates: tuple[Authority, Authority]
) -> None:
    ours, other = certificates
    taskdb = connect_database(by_tls(ours.ca))
    taskdb.insert("p1", "t1", TASK)
    assert taskdb.status_count("p1") == {1: 1}
    taskdb.close()
    with pytest.raises(Exception, match=r"(?i)certificate verify failed"):
        connect_database(by_tls(other.ca))
