"""The highest seal of a cluster in a task database, read without making anything there."""

import sqlite3
from contextlib import closing
from pathlib import Path

from pyspider_zk.databases.urls import server_address, sqlite_path
from pyspider_zk.errors import Unavailable
from pyspider_zk.tasks.seals import TABLE

PATIENCE = 5.0  # seconds for a file that another process has locked


def highest_seal(url: str, cluster: str) -> int:
    """Return the highest epoch that a task database knows of a cluster, 0 if it knows none.

    Blocks for some seconds at most.

    Args:
        url: of the task database; one without transactions has no seals.
        cluster: its root.

    Raises:
        LookupError, ValueError, ImportError: the URL is none that can work.
        Unavailable: the database does not answer, or refuses the login.
    """
    path = sqlite_path("taskdb", url)
    if path is not None:
        return _in_file(Path(path), cluster) if Path(path).exists() else 0
    address = server_address("taskdb", url)
    if address is None:
        return 0
    from pyspider_zk.tasks.server_seal import highest_on_server

    return highest_on_server(address, cluster)


def _in_file(path: Path, cluster: str) -> int:
    uri = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, timeout=PATIENCE, uri=True)) as link:
            return _highest(link, cluster)
    except sqlite3.Error as error:
        raise Unavailable(f"taskdb cannot be read: {path}: {error}") from error


def _highest(link: sqlite3.Connection, cluster: str) -> int:
    known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if link.execute(known, (TABLE,)).fetchone() is None:
        return 0
    query = f"SELECT max(epoch) FROM `{TABLE}` WHERE cluster = ?"  # noqa: S608 - no values
    (highest,) = link.execute(query, (cluster,)).fetchone()
    return highest or 0
