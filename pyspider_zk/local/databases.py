"""The sqlite files of an embedded cluster."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from pyspider_zk.errors import ConfigError


def prepare(files: Iterable[Path]) -> None:
    """Create missing files, and let several processes read while one writes (WAL).

    The mode is a property of the file, so once is enough. Blocks for disk writes.

    Raises:
        ConfigError: a file is something else, or another program holds it.
    """
    for file in files:
        try:
            with closing(sqlite3.connect(file)) as database:
                database.execute("PRAGMA journal_mode=WAL")
        except sqlite3.Error as error:
            remedy = "move it away, or name another folder with --data-path"
            raise ConfigError([f"{file}: {error}; {remedy}"]) from error
