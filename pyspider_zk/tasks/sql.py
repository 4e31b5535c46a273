"""SQL that reads and writes many rows of tasks, in the words of each dialect.

Tables and columns are given quoted, the task id's column first. Each statement takes rows in this
order of columns, but an update of one row takes the id last, and PostgreSQL's takes an array per
column instead.

A round writes a statement for each of its projects, with the same few sets of columns. So what
follows from the columns alone is kept, with ``{}`` for the table.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

POSTGRESQL_TYPES = {
    "taskid": "varchar",
    "project": "text",
    "url": "text",
    "status": "int4",
    "lastcrawltime": "float8",
    "updatetime": "float8",
}
"""Of arrays of columns; all others are JSON, as bytes."""


def sqlite_page(table: str, columns: Sequence[str]) -> str:
    """Return a query for a page of rows: columns and position. It takes status, position and limit.

    The index on the status leads to the first row, and nothing is sorted.
    """
    return f"SELECT {', '.join(columns)}, rowid {_sqlite_page(table)}"


def sqlite_count(table: str) -> str:
    """Return a query for the number of rows of a page, and its last position; it takes the same."""
    page = f"SELECT rowid AS position {_sqlite_page(table)}"
    return f"SELECT count(*), max(position) FROM ({page})"  # noqa: S608 - no values


def sqlite_last_ended(table: str) -> str:
    """Return a query for the ids that were crawled last, among the newest rows of two states.

    It takes a state and how many of its rows are looked at, the same again, and a limit.
    """
    newest = (
        f"SELECT * FROM (SELECT taskid, lastcrawltime FROM {table}"  # noqa: S608 - no values
        " WHERE status = ? ORDER BY rowid DESC LIMIT ?)"
    )
    return (
        f"SELECT taskid FROM ({newest} UNION ALL {newest})"  # noqa: S608 - no values
        " WHERE lastcrawltime IS NOT NULL ORDER BY lastcrawltime DESC LIMIT ?"
    )


def _sqlite_page(table: str) -> str:
    return f"FROM {table} WHERE status = ? AND rowid > ? ORDER BY rowid LIMIT ?"


def sqlite_searched(table: str) -> str:
    """Return a query for the number of the next rows, and the last position.

    It takes the position before them, and a limit.
    """
    page = f"SELECT rowid AS position FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
    return f"SELECT count(*), max(position) FROM ({page})"  # noqa: S608 - no values


def sqlite_between(table: str) -> str:
    """Return a query for the number of rows between two positions."""
    return f"SELECT count(*) FROM {table} WHERE rowid > ? AND rowid <= ?"  # noqa: S608 - no values


def sqlite_search(table: str, columns: Sequence[str], tests: Iterable[str]) -> str:
    """Return a query for columns and position of rows between two positions; then takes a limit."""
    where = " AND ".join(["rowid > ?", "rowid <= ?", *tests])
    chosen = ", ".join(columns)
    return f"SELECT {chosen}, rowid FROM {table} WHERE {where} ORDER BY rowid LIMIT ?"  # noqa: S608


def contains(column: str, mark: str) -> str:
    """Return a test for a text that has another one in it, whether capitals or not."""
    return f"lower({column}) LIKE lower({mark}) ESCAPE '!'"


def containing(text: str) -> str:
    """Return the value of such a test."""
    escaped = re.sub("([!%_])", r"!\1", text)
    return f"%{escaped}%"


@lru_cache
def sqlite_select(columns: tuple[str, ...], count: int) -> str:
    """Return a query for so many rows by their ids: the ids, then the columns; if none, all."""
    key, *others = columns
    marks = ", ".join("?" * count)
    return f"SELECT {key}, {', '.join(others) or '*'} FROM {{}} WHERE {key} IN ({marks})"  # noqa: S608 - no values


@lru_cache
def sqlite_upsert(columns: tuple[str, ...]) -> str:
    """Return an insert that overwrites the columns of rows that are there."""
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {{}} ({', '.join(columns)}) VALUES ({marks}) {_overwritten(columns)}"  # noqa: S608 - no values


def _overwritten(columns: tuple[str, ...]) -> str:
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    return f"ON CONFLICT ({columns[0]}) DO UPDATE SET {sets}"


@lru_cache
def sqlite_update(columns: tuple[str, ...]) -> str:
    """Return an update of one row, which takes the task id last."""
    # Not by ?1 and the like, for which Python 3.12 takes twice the time: it warns of each.
    sets = ", ".join(f"{name} = ?" for name in columns[1:])
    return f"UPDATE {{}} SET {sets} WHERE {columns[0]} = ?"  # noqa: S608 - no values


def postgresql_type(name: str) -> str:
    """Return the type of a column's array."""
    return POSTGRESQL_TYPES.get(name, "bytea")


def postgresql_array(values: Iterable[str | bytes | float | None]) -> str:
    """Return the text of an array, by the rules of PostgreSQL's manual on arrays.

    psycopg looks at each value several times, in Python, to find the type that is known here.
    """
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: str | bytes | float | None) -> str:
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "NULL" if value is None else str(value)


def postgresql_select(table: str, columns: Sequence[str]) -> str:
    """Return a query for rows by their ids, of which it takes an array."""
    key = columns[0]
    return (
        f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - no values
        f" WHERE {key} = ANY (%s::{postgresql_type('taskid')}[])"
    )


@lru_cache
def postgresql_upsert(columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    """Return an insert of arrays that overwrites the columns of rows that are there."""
    rows = f"SELECT * FROM {_arrays(types)}"  # noqa: S608 - no values
    return f"INSERT INTO {{}} ({', '.join(columns)}) {rows} {_overwritten(columns)}"


@lru_cache
def postgresql_update(columns: tuple[str, ...], types: tuple[str, ...]) -> str:
    """Return an update, from arrays, of rows that are there."""
    sets = ", ".join(f"{name} = new.{name}" for name in columns[1:])
    return (
        f"UPDATE {{}} AS old SET {sets}"  # noqa: S608 - no values
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
