"""Survey of pyspider's databases: what they tell about themselves; nothing is made or written.

pyspider's own classes make a database that is missing, and its tables. So servers are asked here
over their engine alone, and of sqlite's files the header is read.
"""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from pyspider_zk.databases.facts import DatabaseFacts, DatabaseFileFacts
from pyspider_zk.databases.urls import server_address, sqlite_path

SQLITE_PATIENCE = 2.0  # seconds

_MAGIC = b"SQLite format 3\x00"
_MODE_AT, _ENCODING_AT, _HEADER = 18, 56, 100  # bytes of a file's header
_WAL = 2
_ENCODINGS = {0: "empty", 1: "UTF-8", 2: "UTF-16le", 3: "UTF-16be"}


def survey(kind: str, url: str) -> DatabaseFacts | None:
    """Ask a database; None for those of other kinds. Blocks for some seconds at most.

    Args:
        kind: ``taskdb``, ``projectdb`` or ``resultdb``.

    Raises:
        LookupError, ValueError, ImportError: the URL is none that can work.
        Unavailable: a server does not answer, or refuses the login.
    """
    path = sqlite_path(kind, url)
    if path is not None:
        return _file(path)
    address = server_address(kind, url)
    if address is None:
        return None
    from pyspider_zk.databases.server_survey import survey_server  # it loads SQLAlchemy

    return survey_server(kind, address)


def _file(path: str) -> DatabaseFileFacts:
    folder_is_writable = os.access(Path(path).parent, os.W_OK | os.X_OK)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        header = _header(path)
    except FileNotFoundError:
        return DatabaseFileFacts(path, folder_is_writable=folder_is_writable)
    except OSError as error:
        return DatabaseFileFacts(path, exists=True, fault=error.strerror or str(error))
    has_wal = header[_MODE_AT : _MODE_AT + 1] == bytes([_WAL])
    return DatabaseFileFacts(
        path=path,
        exists=True,
        folder_is_writable=folder_is_writable,
        is_writable=os.access(path, os.W_OK),
        mode=mode,
        is_sqlite=not header or header.startswith(_MAGIC),
        encoding=_encoding(header),
        has_wal=has_wal,
        fault=_read_fault(Path(path).resolve(), has_wal=has_wal),
    )


def _header(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEADER)


def _encoding(header: bytes) -> str:
    number = int.from_bytes(header[_ENCODING_AT : _ENCODING_AT + 4], "big")
    return _ENCODINGS.get(number, f"encoding {number}")


def _read_fault(path: Path, *, has_wal: bool) -> str:
    """Return why a file cannot be read, without changing it."""
    uri = f"{path.as_uri()}?mode=ro"
    if has_wal and not any(Path(f"{path}-{end}").exists() for end in ("wal", "shm")):
        uri += "&immutable=1"  # nobody has it open, and a reader would make these files
    try:
        with closing(sqlite3.connect(uri, timeout=SQLITE_PATIENCE, uri=True)) as link:
            link.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return ""
