"""The file of the cluster's secret: one line that only its owner may read."""

import os
import secrets
import stat
import tempfile
from pathlib import Path

from pyspider_zk.errors import ConfigError

SHORTEST = 16  # characters; who listens to a call may guess the secret without asking anybody
LONGEST = 1000  # characters


def read_cluster_secret(file: Path) -> str:
    """Return the secret in a file; a pipe or device does not block it.

    Raises:
        ConfigError: it cannot be read, holds no secret, belongs to somebody else, or others may
            read it.
    """
    try:
        return check_cluster_secret(_content(file).decode("utf-8").rstrip("\r\n"))
    except OSError as error:
        raise ConfigError([f"{file} cannot be read: {error.strerror}"]) from error
    except ValueError as error:  # bytes that are no text are told of without them
        reason = "is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ConfigError([f"{file}: {reason}"]) from None


def make_cluster_secret(file: Path) -> Path:
    """Make a file with a new secret, unless it is there; return its absolute path.

    It appears at once and complete, or not at all, and whoever is second keeps the first one's.

    Raises:
        ConfigError: it cannot be made, or the one that is there is of no use.
    """
    file = file.resolve()
    try:
        if not file.exists():
            _put(file, secrets.token_urlsafe())
    except OSError as error:
        raise ConfigError([f"{file} cannot be written: {error.strerror}"]) from error
    read_cluster_secret(file)
    return file


def check_cluster_secret(secret: str) -> str:
    """Return a secret that can be one.

    Raises:
        ValueError: it cannot; it is not repeated.
    """
    if not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"a secret must have from {SHORTEST} to {LONGEST} characters")
    if not secret.isprintable():
        raise ValueError("a secret must be one line of printable characters")
    return secret


def _content(file: Path) -> bytes:
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_owner(file, os.fstat(handle))
        return os.read(handle, 4 * LONGEST + 2)
    finally:
        os.close(handle)


def _put(file: Path, secret: str) -> None:
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    try:
        with open(handle, "w", encoding="ascii") as opened:
            opened.write(secret + "\n")
        os.link(draft, file)
    except FileExistsError:
        return
    finally:
        os.unlink(draft)


def _check_owner(file: Path, found: os.stat_result) -> None:
    """Refuse what others could have written, or may read.

    Raises:
        ConfigError: naming the remedy.
    """
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError([f"{file} is no file"])
    if found.st_uid != os.geteuid():
        raise ConfigError(
            [f"{file} belongs to user {found.st_uid}, not to you: take it over, or name your own"]
        )
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise ConfigError([f"{file} can be read by others (mode {mode:03o}): chmod 600 {file}"])
