"""How a group of rows is written by SQLAlchemy: each dialect's fastest way.

SQLAlchemy's own statements of many rows take several times as long as these.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from pyspider_zk.tasks.sql import (
    mysql_lock,
    mysql_update,
    mysql_upsert,
    postgresql_type,
    postgresql_update,
    postgresql_upsert,
    sqlite_update,
    sqlite_upsert,
)
from pyspider_zk.tasks.writes import Row, RowGroup, statements

Quoted = Callable[[str], str]


def _write_sqlite(connection: Connection, quoted: Quoted, group: RowGroup) -> None:
    names = list(map(quoted, group.names))
    statement = sqlite_upsert if group.is_new else sqlite_update
    connection.exec_driver_sql(statement(quoted(group.project), names), group.rows)


def _write_postgresql(connection: Connection, quoted: Quoted, group: RowGroup) -> None:
    """Write a group from arrays, of which the server gets one per column."""
    names, types = list(map(quoted, group.names)), list(map(postgresql_type, group.names))
    statement = postgresql_upsert if group.is_new else postgresql_update
    for rows in statements(group.rows):
        arrays = tuple(map(list, zip(*rows, strict=True)))
        connection.exec_driver_sql(statement(quoted(group.project), names, types), arrays)


def _write_mysql(connection: Connection, quoted: Quoted, group: RowGroup) -> None:
    """Write a group by inserts of many rows, which drivers make of ``executemany``.

    They have nothing like it for updates, so rows that are there are updated by inserts, too.
    """
    for rows in statements(group.rows):
        if group.is_new:
            _upsert_mysql(connection, quoted, group, rows)
        else:
            _update_mysql(connection, quoted, group, rows)


def _upsert_mysql(
    connection: Connection, quoted: Quoted, group: RowGroup, rows: Sequence[Row]
) -> None:
    statement = mysql_upsert(quoted(group.project), list(map(quoted, group.names)))
    connection.exec_driver_sql(statement, list(rows))


def _update_mysql(
    connection: Connection, quoted: Quoted, group: RowGroup, rows: Sequence[Row]
) -> None:
    table, names = quoted(group.project), list(map(quoted, group.names))
    lock = mysql_lock(table, names[0], len(rows))
    there = set(connection.exec_driver_sql(lock, tuple(row[0] for row in rows)).scalars())
    upserts = [row for row in rows if row[0] in there]
    if upserts:
        _upsert_mysql(connection, quoted, group, upserts)
    # No such rows, or none of exactly that id: the server decides.
    updates = [(*row[1:], row[0]) for row in rows if row[0] not in there]
    if updates:
        connection.exec_driver_sql(mysql_update(table, names), updates)


WRITERS: dict[str, Callable[[Connection, Quoted, RowGroup], None]] = {
    "sqlite": _write_sqlite,
    "postgresql": _write_postgresql,
    "mysql": _write_mysql,
}
