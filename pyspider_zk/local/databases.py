"""The sqlite files of an embedded cluster."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path


def prepare(files: Iterable[Path]) -> None:
    """Create missing files, and let several processes read while one writes (WAL).

    The mode is a property of the file, so once is enough. Blocks for disk writes.

    Raises:
        sqlite3.DatabaseError: a file is something else, or another program holds it.
    """
    for file in files:
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode=WAL")
