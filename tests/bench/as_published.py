"""pyspider without what this project's patches make faster: what a user of pyspider has.

Usage: ``python -m tests.bench.as_published MODULE ARGUMENT...``.

What the patches repair stays: on no current Python does it run without that.
"""

import runpy
import sys
from typing import Any

from pyspider.database.sqlite.sqlitebase import SQLiteMixin

STATEMENTS = 128
"""How many statements a connection keeps parsed, by Python's default."""

CACHE = 2_000 * 1024
"""How many bytes of a file it keeps at most, by sqlite's default."""


def undo() -> None:
    """Let pyspider write its sqlite files in its own way from now on."""
    SQLiteMixin.STATEMENTS, SQLiteMixin.CACHE = STATEMENTS, CACHE
    SQLiteMixin._keep_journal = _keep_no_journal


def _keep_no_journal(_database: SQLiteMixin, _connection: Any) -> None:
    """Leave the journal to sqlite, which makes and deletes its file with each commit."""


if __name__ == "__main__":
    undo()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
