"""Survey of a database on a server, by SQLAlchemy."""

import time

import sqlalchemy
from pyspider.database.sqlalchemy.connections import make_engine
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from pyspider_zk.databases.facts import DatabaseServerFacts
from pyspider_zk.errors import Unavailable, brief

PROBES = 5


def survey_server(kind: str, address: sqlalchemy.URL) -> DatabaseServerFacts:
    """Ask a server; blocks for some seconds at most.

    Raises:
        Unavailable: it does not answer, or refuses the login.
    """
    engine = make_engine(address)
    try:
        with engine.connect() as link:
            ask = _PRODUCTS[engine.dialect.name]
            return ask(link, address.host or "", kind == "taskdb")
    except SQLAlchemyError as error:
        raise Unavailable(
            f"it cannot be used: {brief(error)}; start it, or correct the URL of {kind},"
            " special characters %-encoded"
        ) from error
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
        read_only=_one(link, "SELECT @@global.read_only") in ("1", "ON"),
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
