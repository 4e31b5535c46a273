"""What pyspider's sqlite databases lack: transactions, and names of tables whatever is in them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any


@contextmanager
def transaction(database: Any) -> Iterator[sqlite3.Cursor]:
    """Make one transaction of what this thread does to one of pyspider's sqlite databases.

    It is undone if the block fails. Blocks for the file's lock.
    """
    with closing(database.dbcur) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if cursor.connection.in_transaction:  # not if sqlite itself has rolled it back
                cursor.execute("ROLLBACK")
            raise


def quoted_table(database: Any, project: str) -> str:
    """Return the name of a project's table in SQL: pyspider doubles no backtick."""
    name: str = database._tablename(project)
    return f"`{name.replace('`', '``')}`"
