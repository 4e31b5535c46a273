"""Database servers by their URLs: which there are, and what they need.

Added by pyspider-zk. No error names a URL, for it may hold a password.
"""

from importlib import import_module
from importlib.util import find_spec

UNSUPPORTED = {"mongodb": "MongoDB", "elasticsearch": "Elasticsearch", "es": "Elasticsearch"}
REMEDY = "use sqlite, PostgreSQL or MariaDB (docs/how-to/databases.md)"

PACKAGES = {
    "sqlalchemy": "SQLAlchemy",
    "psycopg": "psycopg[binary]",
    "pymysql": "PyMySQL",
    "mysqlconnector": "mysql-connector-python",
}
"""What installs a module or driver."""

CLASSES = {"taskdb": "TaskDB", "projectdb": "ProjectDB", "resultdb": "ResultDB"}


class UnsupportedDatabase(LookupError):
    """A database that pyspider cannot use here; the message names the remedy."""


class MissingDriver(ImportError):
    """A database whose driver is not installed; the message names the remedy."""


def unsupported(engine):
    """Return the error for an engine that is not supported any more."""
    return UnsupportedDatabase(f"{UNSUPPORTED[engine]} is not supported: {REMEDY}")


def connect(engine, driver, kind, url):
    """Connect to a server; raises as `address` does, and what SQLAlchemy raises."""
    known = address(engine, driver, kind, url)
    module = import_module(f"pyspider.database.sqlalchemy.{kind}")
    return getattr(module, CLASSES[kind])(known.render_as_string(hide_password=False))


def address(engine, driver, kind, url):
    """Return SQLAlchemy's URL of a database; nothing is connected.

    Args:
        engine: ``mysql`` or ``sqlalchemy``.
        driver: SQLAlchemy's name for it: ``postgresql``, ``mysql+pymysql``; empty for ``mysql``.
        kind: ``taskdb``, ``projectdb`` or ``resultdb``.
        url: the whole URL.

    Raises:
        MissingDriver: what is needed is not installed.
        UnsupportedDatabase, ValueError: the URL is none that can work.
    """
    if engine == "sqlalchemy" and not driver:
        raise UnsupportedDatabase(f"sqlalchemy+{kind}:// names no database: {REMEDY}")
    need("sqlalchemy")
    connections = import_module("pyspider.database.sqlalchemy.connections")
    found = connections.parse(f"{driver or 'mysql'}://{url.partition('://')[2]}")
    need(found.get_driver_name())
    return with_defaults(found, kind) if engine == "mysql" else found


def need(name):
    """Raise MissingDriver if a module or driver is not installed."""
    module = name.replace("mysqlconnector", "mysql")
    if name in PACKAGES and find_spec(module) is None:
        raise MissingDriver(
            f"the package {PACKAGES[name]} is missing, which this database needs: install"
            " requirements/postgresql.txt or mysql.txt of pyspider-zk (docs/how-to/databases.md)"
        )


def with_defaults(found, kind):
    """Return the URL of a ``mysql://`` with what pyspider takes if it is not said."""
    return found.set(
        username=found.username or "root",
        host=found.host or "localhost",
        database=found.database or kind,
    )
