"""The file of a backup: lines of JSON between a header and a checksum, for its owner only.

::

    {"format": "pyspider-zk backup", "version": 1, "root": "/crawl", "created": 1800000000.5}
    {"path": "meta", "data": "eyJzbG90cyI6MjU2fQ=="}
    ...
    {"sha256": "of all lines before"}
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from pyspider_zk.backup.content import LARGEST_ZNODE, MOST_ZNODES, Backup, check_backup
from pyspider_zk.errors import BadMessage, ConfigError
from pyspider_zk.secret_files import private_file

FORMAT, VERSION = "pyspider-zk backup", 1
LONGEST_LINE = 2 * LARGEST_ZNODE  # bytes, with the data in Base64
MOST_LINES = MOST_ZNODES + 2


class BackupHeader(msgspec.Struct):
    """The first line."""

    format: str
    version: int
    root: str
    created: float


class ZnodeLine(msgspec.Struct):
    """The line of one znode; data are in Base64."""

    path: str
    data: str


class ChecksumLine(msgspec.Struct):
    """The last line: of all before."""

    sha256: str


def write_backup(path: Path, backup: Backup) -> None:
    """Write a backup to a new file, which appears complete or not at all, with mode 600.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    try:
        with private_file(path, replace=False) as file:
            _write_lines(file, backup)
    except FileExistsError:
        raise ConfigError([f"{path} exists already: name another file"]) from None
    except OSError as error:
        raise ConfigError([f"{path} cannot be written: {error.strerror}"]) from error


def read_backup(path: Path) -> Backup:
    """Return what a file holds, if all of it is valid.

    Raises:
        ConfigError: it cannot be read, or is no valid backup; the message says why.
    """
    try:
        with path.open("rb") as file:
            backup = _read(file)
        check_backup(backup)
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}"]) from error
    except (BadMessage, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path} is no valid backup: {error}"]) from error
    return backup


def _write_lines(file: IO[bytes], backup: Backup) -> None:
    digest = hashlib.sha256()
    for line in _lines(backup):
        digest.update(line)
        file.write(line)
    file.write(_line({"sha256": digest.hexdigest()}))


def _lines(backup: Backup) -> Iterator[bytes]:
    header = {"format": FORMAT, "version": VERSION, "root": backup.root}
    yield _line({**header, "created": backup.created})
    for path, data in backup.znodes.items():
        yield _line({"path": path, "data": base64.b64encode(data).decode()})


def _line(values: dict[str, object]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _read(file: IO[bytes]) -> Backup:
    digest = hashlib.sha256()
    header = _header(_next_line(file), digest)
    znodes: dict[str, bytes] = {}
    for _ in range(MOST_LINES):
        line = _next_line(file)
        if line.startswith(b'{"sha256"'):
            _check_end(file, line, digest.hexdigest())
            return Backup(header.root, header.created, znodes)
        digest.update(line)
        path, data = _znode(line)
        if path in znodes:
            raise BadMessage(f"{path!r:.200} is there twice")
        znodes[path] = data
    raise BadMessage(f"it has more than {MOST_ZNODES} znodes")


def _next_line(file: IO[bytes]) -> bytes:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise BadMessage("it is cut short" if len(line) < LONGEST_LINE else "a line is too long")
    return line


def _header(line: bytes, digest: "hashlib._Hash") -> BackupHeader:
    digest.update(line)
    header = msgspec.json.decode(line, type=BackupHeader)
    if header.format != FORMAT:
        raise BadMessage(f"its format is {header.format!r:.100}, not {FORMAT!r}")
    if header.version != VERSION:
        raise BadMessage(
            f"it has version {header.version}, this program reads {VERSION}: use a newer one"
        )
    return header


def _znode(line: bytes) -> tuple[str, bytes]:
    found = msgspec.json.decode(line, type=ZnodeLine)
    try:
        return found.path, base64.b64decode(found.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadMessage(f"the data of {found.path!r:.200} are not Base64") from error


def _check_end(file: IO[bytes], line: bytes, digest: str) -> None:
    if msgspec.json.decode(line, type=ChecksumLine).sha256 != digest:
        raise BadMessage("its checksum is wrong: it was changed or damaged")
    if file.read(1):
        raise BadMessage("something follows its end")
