"""SQL that reads and writes many rows of tasks, in the words of each dialect.

Tables and columns are given quoted, the task id's column first. Each statement takes rows in this
order of columns; PostgreSQL's takes an array per column instead.
"""

from collections.abc import Sequence

POSTGRESQL_TYPES = {
    "taskid": "varchar",
    "project": "text",
    "url": "text",
    "status": "int4",
    "lastcrawltime": "float8",
    "updatetime": "float8",
}
"""Of arrays of columns; all others are JSON, as bytes."""


def sqlite_active(table: str) -> str:
    """Return a query for a page of rows: it takes status, position and limit.

    The index on the status leads to the first row, and nothing is sorted.
    """
    return f"SELECT taskid, schedule, rowid {_sqlite_page(table)}"


def sqlite_count(table: str) -> str:
    """Return a query for the number of rows of a page, and its last position; it takes the same."""
    page = f"SELECT rowid AS position {_sqlite_page(table)}"
    return f"SELECT count(*), max(position) FROM ({page})"  # noqa: S608 - no values


def _sqlite_page(table: str) -> str:
    return f"FROM {table} WHERE status = ? AND rowid > ? ORDER BY rowid LIMIT ?"


def sqlite_upsert(table: str, columns: Sequence[str]) -> str:
    """Return an insert that overwrites the columns of rows that are there."""
    marks = ", ".join("?" * len(columns))
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - no values
        f" ON CONFLICT ({columns[0]}) DO UPDATE SET {sets}"
    )


def sqlite_update(table: str, columns: Sequence[str]) -> str:
    """Return an update of rows that are there."""
    sets = ", ".join(f"{name} = ?{number}" for number, name in enumerate(columns[1:], 2))
    return f"UPDATE {table} SET {sets} WHERE {columns[0]} = ?1"  # noqa: S608 - no values


def postgresql_type(name: str) -> str:
    """Return the type of a column's array."""
    return POSTGRESQL_TYPES.get(name, "bytea")


def postgresql_select(table: str, columns: Sequence[str]) -> str:
    """Return a query for rows by their ids, of which it takes an array."""
    key = columns[0]
    return (
        f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - no values
        f" WHERE {key} = ANY (%s::{postgresql_type('taskid')}[])"
    )


def postgresql_upsert(table: str, columns: Sequence[str], types: Sequence[str]) -> str:
    """Return an insert of arrays that overwrites the columns of rows that are there."""
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - no values
        f" SELECT * FROM {_arrays(types)} ON CONFLICT ({columns[0]}) DO UPDATE SET {sets}"
    )


def postgresql_update(table: str, columns: Sequence[str], types: Sequence[str]) -> str:
    """Return an update, from arrays, of rows that are there."""
    sets = ", ".join(f"{name} = new.{name}" for name in columns[1:])
    return (
        f"UPDATE {table} AS old SET {sets}"  # noqa: S608 - no values
        f" FROM {_arrays(types)} AS new ({', '.join(columns)})"
        f" WHERE old.{columns[0]} = new.{columns[0]}"
    )


def _arrays(types: Sequence[str]) -> str:
    return f"unnest({', '.join(f'%s::{each}[]' for each in types)})"


def mysql_upsert(table: str, columns: Sequence[str]) -> str:
    """Return an insert that overwrites the columns of rows that are there."""
    marks = ", ".join(["%s"] * len(columns))
    sets = ", ".join(f"{name} = VALUES({name})" for name in columns[1:])
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - no values
        f" ON DUPLICATE KEY UPDATE {sets}"
    )


def mysql_update(table: str, columns: Sequence[str]) -> str:
    """Return an update of one row, which takes the task id last."""
    sets = ", ".join(f"{name} = %s" for name in columns[1:])
    return f"UPDATE {table} SET {sets} WHERE {columns[0]} = %s"  # noqa: S608 - no values


def mysql_lock(table: str, key: str, count: int) -> str:
    """Return a query that locks rows by their ids, and gives the ids of those there are."""
    marks = ", ".join(["%s"] * count)
    return f"SELECT {key} FROM {table} WHERE {key} IN ({marks}) FOR UPDATE"  # noqa: S608
