"""Survey of pyspider's databases: what they tell about themselves; nothing is made or written.

pyspider's own classes make a database that is missing, and its tables. So servers are asked here
over their engine alone, and of sqlite's files the header is read.
"""

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection

from pyspider_zk.databases.facts import DatabaseFacts, DatabaseFileFacts, DatabaseServerFacts
from pyspider_zk.databases.urls import server_address, sqlite_path

PROBES = 5
SQLITE_PATIENCE = 2.0  # seconds

_MAGIC = b"SQLite format 3\x00"
_MODE_AT, _ENCODING_AT, _HEADER = 18, 56, 100  # bytes of a file's header
_WAL = 2
_ENCODINGS = {0: "empty", 1: "UTF-8", 2: "UTF-16le", 3: "UTF-16be"}


def survey(kind: str, url: str) -> DatabaseFacts | None:
    """Ask a database; None for those of other kinds. Blocks for some seconds at most.

    Args:
        kind: ``taskdb``, ``projectdb`` or ``resultdb``.

    Raises:
        LookupError, ValueError, ImportError: the URL is none that can work.
        sqlalchemy.exc.SQLAlchemyError: a server does not answer, or refuses the login.
    """
    path = sqlite_path(kind, url)
    if path is not None:
        return _file(path)
    address = server_address(kind, url)
    return None if address is None else _server(kind, address)


# --- files ---------------------------------------------------------------------------------------


def _file(path: str) -> DatabaseFileFacts:
    folder_is_writable = os.access(Path(path).parent, os.W_OK | os.X_OK)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        header = _header(path)
    except FileNotFoundError:
        return DatabaseFileFacts(path, folder_is_writable=folder_is_writable)
    except OSError as error:
        return DatabaseFileFacts(path, exists=True, fault=error.strerror or str(error))
    return DatabaseFileFacts(
        path=path,
        exists=True,
        folder_is_writable=folder_is_writable,
        is_writable=os.access(path, os.W_OK),
        mode=mode,
        is_sqlite=not header or header.startswith(_MAGIC),
        encoding=_encoding(header),
        has_wal=header[_MODE_AT : _MODE_AT + 1] == bytes([_WAL]),
        fault=_read_fault(path),
    )


def _header(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEADER)


def _encoding(header: bytes) -> str:
    number = int.from_bytes(header[_ENCODING_AT : _ENCODING_AT + 4], "big")
    return _ENCODINGS.get(number, f"encoding {number}")


def _read_fault(path: str) -> str:
    """Return why a file cannot be read, without changing it."""
    uri = f"{Path(path).resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, SQLITE_PATIENCE, uri=True)) as link:
            link.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return ""


# --- servers -------------------------------------------------------------------------------------


def _server(kind: str, address: sqlalchemy.URL) -> DatabaseServerFacts:
    from pyspider.database.sqlalchemy.connections import make_engine

    engine = make_engine(address)
    try:
        with engine.connect() as link:
            ask = _PRODUCTS[engine.dialect.name]
            return ask(link, address.host or "", kind == "taskdb")
    finally:
        engine.dispose()


def _postgresql(link: Connection, host: str, has_tasks: bool) -> DatabaseServerFacts:
    latency, ahead = _clock(link, "SELECT extract(epoch FROM clock_timestamp())")
    return DatabaseServerFacts(
        product="PostgreSQL",
        version=_one(link, "SHOW server_version"),
        host=host,
        encoding=_one(link, "SHOW server_encoding"),
        isolation=_one(link, "SHOW default_transaction_isolation").upper(),
        encrypted=_one(link, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "True",
        read_only=_one(link, "SHOW transaction_read_only") == "on",
        latency=latency,
        ahead=ahead,
        narrow=_narrow(link, "current_schema()") if has_tasks else (),
    )


def _mysql(link: Connection, host: str, has_tasks: bool) -> DatabaseServerFacts:
    latency, ahead = _clock(link, "SELECT UNIX_TIMESTAMP(SYSDATE(6))")
    version = _one(link, "SELECT VERSION()")
    cipher = link.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").fetchone()
    return DatabaseServerFacts(
        product="MariaDB" if "MariaDB" in version else "MySQL",
        version=version,
        host=host,
        encoding=_one(link, "SELECT @@character_set_database"),
        isolation=_isolation(link).replace("-", " ").upper(),
        encrypted=bool(cipher and cipher[1]),
        read_only=_one(link, "SELECT @@global.read_only") == "1",
        latency=latency,
        ahead=ahead,
        narrow=_narrow(link, "DATABASE()") if has_tasks else (),
    )


_PRODUCTS = {"postgresql": _postgresql, "mysql": _mysql}


def _isolation(link: Connection) -> str:
    """Return the level, under the name that MySQL 8 has for it or the older one."""
    rows = link.exec_driver_sql(
        "SHOW VARIABLES WHERE variable_name IN ('transaction_isolation', 'tx_isolation')"
    ).fetchall()
    return str(rows[0][1]) if rows else ""


def _one(link: Connection, query: str) -> str:
    return str(link.exec_driver_sql(query).scalar())


def _clock(link: Connection, query: str) -> tuple[float, float]:
    """Return how long a statement takes, and how far the clock is ahead, at the quickest one."""
    return min(_reading(link, query) for _ in range(PROBES))


def _reading(link: Connection, query: str) -> tuple[float, float]:
    before = time.time()
    theirs = float(link.exec_driver_sql(query).scalar_one())
    after = time.time()
    return after - before, theirs - (before + after) / 2


def _narrow(link: Connection, schema: str) -> tuple[str, ...]:
    """Return the tables whose column of URLs has a limit, as pyspider's own tables have."""
    rows = link.exec_driver_sql(
        "SELECT table_name FROM information_schema.columns"  # noqa: S608 - no values
        f" WHERE table_schema = {schema} AND column_name = 'url'"
        " AND character_maximum_length < 65536 ORDER BY table_name"
    )
    return tuple(str(name) for (name,) in rows)
