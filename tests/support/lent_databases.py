"""Connections of pyspider's own to a database, lent for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspider.database import connect_database


@contextmanager
def lent(url: str) -> Iterator[Any]:
    """Lend a connection to a database, and close it afterwards."""
    database = connect_database(url)
    try:
        yield database
    finally:
        if hasattr(database, "close"):
            database.close()
        elif database.conn is not None:  # sqlite's, which connects when it is first asked
            database.conn.close()
