"""Connections to a database of SQLAlchemy's: a pool that heals, for threads and forked processes.

Added by pyspider-zk. Every statement is a transaction of its own, so nothing is locked or kept open
between two calls. Errors name no parameters: those are pages, cookies and scripts.
"""

import os
import weakref
from functools import partial

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

DRIVERS = {
    "postgresql": ("psycopg",),
    "mysql": ("pymysql", "mysqlconnector"),
    "sqlite": ("pysqlite",),
}
"""What is tested; the first is used if the URL names none."""

CONNECT_PATIENCE = 3  # seconds until one that does not answer counts as away
LINK_PATIENCE = 10  # seconds until what was sent must have arrived
READ_PATIENCE = 60  # seconds that the answer to a statement may take, where the client can tell

OPTIONS = {
    # A prepared statement outlives neither its table nor a connection that a proxy swaps.
    "psycopg": {
        "connect_timeout": CONNECT_PATIENCE,
        "client_encoding": "utf8",
        "tcp_user_timeout": LINK_PATIENCE * 1000,
        "prepare_threshold": None,
    },
    "pymysql": {
        "connect_timeout": CONNECT_PATIENCE,
        "read_timeout": READ_PATIENCE,
        "write_timeout": READ_PATIENCE,
        "charset": "utf8mb4",
    },
    "mysqlconnector": {
        "connection_timeout": CONNECT_PATIENCE,
        "read_timeout": READ_PATIENCE,
        "write_timeout": READ_PATIENCE,
        "charset": "utf8mb4",
    },
}
"""What drivers are told, unless the URL says something else of it."""


LOCK_PATIENCE = 1  # seconds that a statement waits for what another holds, such as a reader's table

SESSIONS = {
    "postgresql": f"SET lock_timeout = {LOCK_PATIENCE * 1000}",
    # What does not fit is refused, not cut.
    "mysql": "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES'),"
    f" SESSION lock_wait_timeout = {LOCK_PATIENCE},"
    f" SESSION innodb_lock_wait_timeout = {LOCK_PATIENCE}",
}
"""What a connection begins with."""


class Connections:
    """A pool of connections to one database, which is made if it is missing.

    Threads: any. Blocks for the network. A connection that was lost is replaced before the next
    statement; a forked process makes its own.

    Args:
        url: as SQLAlchemy writes it: ``postgresql://user:password@host/database``.

    Raises:
        ValueError: the URL is none; it is not repeated, for it may hold a password.
        sqlalchemy.exc.SQLAlchemyError: the database does not answer, or refuses the login.
    """

    def __init__(self, url):
        parsed = parse(url)
        self._engine = make_engine(parsed)
        self._process = os.getpid()
        self.close = weakref.finalize(self, dispose, self._engine, self._process)
        try:
            ensure_database(self._engine, parsed)
        except BaseException:
            self.close()
            raise

    @property
    def dialect(self):
        """Whose SQL it is: ``postgresql``, ``mysql`` (MariaDB's as well) or ``sqlite``."""
        return self._engine.dialect.name

    @property
    def engine(self):
        """SQLAlchemy's engine, with connections of this process."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)  # they are the parent's
            self._process = os.getpid()
        return self._engine

    def rows(self, statement):
        """Return the rows of a query as dicts."""
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def stream(self, statement):
        """Yield the rows of a query as they were when it was asked, however many there are."""
        level = "SERIALIZABLE" if self.dialect == "sqlite" else "REPEATABLE READ"
        with (
            self.engine.connect().execution_options(
                isolation_level=level, stream_results=True, max_row_buffer=500
            ) as connection,
            connection.execute(statement) as result,
        ):
            yield from map(dict, result.mappings())

    def change(self, statement):
        """Carry out what changes rows; return how many it found."""
        with self.engine.connect() as connection:
            return connection.execute(statement).rowcount

    def table_names(self):
        """Return the names of all tables."""
        return set(sqlalchemy.inspect(self.engine).get_table_names())

    def create(self, table):
        """Make a table, unless there is one of its name, or another makes it at the same time."""
        try:
            table.create(self.engine, checkfirst=True)
        except SQLAlchemyError:
            if table.name not in self.table_names():
                raise


def parse(url):
    """Return the parts of a URL, with our driver if it names none."""
    try:
        parsed = sqlalchemy.make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):
        raise ValueError(
            "a database's URL is scheme://user:password@host:port/database, with the special"
            " characters of user and password %-encoded"
        )
    dialect, _, driver = parsed.drivername.partition("+")
    dialect = {"mariadb": "mysql", "postgres": "postgresql"}.get(dialect, dialect)
    known = DRIVERS.get(dialect, ())
    if (driver and driver not in known) or not known:
        tested = [f"{name}+{each}" for name, drivers in DRIVERS.items() for each in drivers]
        raise ValueError(f"{parsed.drivername} is not supported, only {', '.join(tested)}")
    return parsed.set(drivername=f"{dialect}+{driver or known[0]}")


def make_engine(url):
    """Return an engine; nothing is connected yet."""
    driver = url.get_driver_name()
    options = {key: value for key, value in OPTIONS.get(driver, {}).items() if key not in url.query}
    if driver == "pymysql" and url.password:
        options["password"] = str(url.password).encode()  # as text it would be sent as Latin-1
    engine = sqlalchemy.create_engine(
        url,
        connect_args=options,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,  # a round trip for nothing
        pool_pre_ping=True,
        pool_recycle=3600,  # before a firewall forgets them
        hide_parameters=True,
    )
    if engine.dialect.name in SESSIONS:
        event.listen(engine, "connect", partial(begin_session, SESSIONS[engine.dialect.name]))
    return engine


def begin_session(statement, connection, _record):
    """Tell the server how to serve a connection."""
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


def ensure_database(engine, url):
    """Connect; make the database if that is what is missing and we may."""
    try:
        engine.connect().close()
    except DBAPIError as missing:
        if not url.database or url.get_backend_name() == "sqlite":
            raise
        try:
            create_database(url)
        except OperationalError:
            raise missing from None
        except SQLAlchemyError:
            pass  # another made it, or may do what we may not: the next line tells
        engine.connect().close()


def create_database(url):
    """Make a database of a server, whatever characters are written to it."""
    of_server = {"postgresql": "postgres", "mysql": ""}[url.get_backend_name()]
    content = {
        "postgresql": "ENCODING 'UTF8' TEMPLATE template0",
        "mysql": "CHARACTER SET utf8mb4",
    }[url.get_backend_name()]
    engine = make_engine(url.set(database=of_server))
    try:
        name = engine.dialect.identifier_preparer.quote_identifier(url.database)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} {content}")
    finally:
        engine.dispose()


def dispose(engine, process):
    """Close all connections, in the process that opened them."""
    if process == os.getpid():
        engine.dispose()
