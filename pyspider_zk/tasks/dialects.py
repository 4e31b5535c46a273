"""How a group of rows, and seals, are written by SQLAlchemy: each dialect's fastest way.

SQLAlchemy's own statements of many rows take several times as long as these.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from pyspider_zk.tasks.seals import (
    Seals,
    mysql_seal,
    postgresql_seal,
    select_seals,
    sqlite_seal,
)
from pyspider_zk.tasks.sql import (
    mysql_lock,
    mysql_update,
    mysql_upsert,
    postgresql_array,
    postgresql_type,
    postgresql_update,
    postgresql_upsert,
    sqlite_update,
    sqlite_upsert,
)
from pyspider_zk.tasks.writes import Row, RowGroup, ids_last, statements

Quoted = Callable[[str], str]


def _write_sqlite(connection: Connection, quoted: Quoted, group: RowGroup) -> None:
    names = tuple(map(quoted, group.names))
    table = quoted(group.project)
    if group.is_new:
        connection.exec_driver_sql(sqlite_upsert(names).replace("{}", table), group.rows)
    else:
        connection.exec_driver_sql(sqlite_update(names).replace("{}", table), ids_last(group.rows))


def _write_postgresql(connection: Connection, quoted: Quoted, group: RowGroup) -> None:
    """Write a group from arrays, of which the server gets one per column."""
    names, types = tuple(map(quoted, group.names)), tuple(map(postgresql_type, group.names))
    statement = (postgresql_upsert if group.is_new else postgresql_update)(names, types)
    for rows in statements(group.rows):
        arrays = tuple(map(postgresql_array, zip(*rows, strict=True)))
        connection.exec_driver_sql(statement.replace("{}", quoted(group.project)), arrays)


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
    updates = ids_last(row for row in rows if row[0] not in there)
    if updates:
        connection.exec_driver_sql(mysql_update(table, names), updates)


WRITERS: dict[str, Callable[[Connection, Quoted, RowGroup], None]] = {
    "sqlite": _write_sqlite,
    "postgresql": _write_postgresql,
    "mysql": _write_mysql,
}


IDLENESS = 4
"""Seconds that a transaction may stand still, about a lease: then its process is suspended."""

IDLE_LIMITS = {
    "postgresql": f"SET idle_in_transaction_session_timeout = {IDLENESS * 1000}",
    "mariadb": f"SET SESSION idle_transaction_timeout = {IDLENESS}",
}
"""What tells a server; MySQL has nothing like it."""

SHARED_LOCKS = {"sqlite": "", "postgresql": " FOR SHARE", "mysql": " LOCK IN SHARE MODE"}
"""What keeps rows as they are; a transaction in sqlite has locked them all."""


def sealed(connection: Connection, table: str, seals: Seals) -> list[tuple[object, object]]:
    """Return slots and their epochs, which nobody changes until the transaction ends."""
    dialect = connection.dialect.name
    mark = "?" if dialect == "sqlite" else "%s"
    found: list[tuple[object, object]] = []
    for asked in seals.questions():
        query = select_seals(table, mark, len(asked) - 1, SHARED_LOCKS[dialect])
        found.extend((slot, epoch) for slot, epoch in connection.exec_driver_sql(query, asked))
    return found


def _seal_sqlite(connection: Connection, table: str, seals: Seals) -> None:
    connection.exec_driver_sql(sqlite_seal(table), seals.rows())


def _seal_postgresql(connection: Connection, table: str, seals: Seals) -> None:
    arrays = tuple(map(list, zip(*seals.rows(), strict=True)))
    connection.exec_driver_sql(postgresql_seal(table), arrays)


def _seal_mysql(connection: Connection, table: str, seals: Seals) -> None:
    connection.exec_driver_sql(mysql_seal(table), seals.rows())


SEALERS: dict[str, Callable[[Connection, str, Seals], None]] = {
    "sqlite": _seal_sqlite,
    "postgresql": _seal_postgresql,
    "mysql": _seal_mysql,
}
