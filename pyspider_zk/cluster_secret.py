"""The file of the cluster's secret: one line, readable by its user only."""

import os
import secrets
import tempfile
from pathlib import Path

from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import read_secret

SHORTEST = 16  # characters; an eavesdropper can test guesses of the secret offline
LONGEST = 1000  # characters


def read_cluster_secret(file: Path) -> str:
    """Return the secret in a file; `read_secret` says who may read that.

    Raises:
        ConfigError: it cannot be read, holds no secret, belongs to somebody else, or others may
            read it.
    """
    try:
        secret = read_secret(str(file))
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    try:
        return check_cluster_secret(secret)
    except ValueError as error:
        raise ConfigError([f"{file}: {error}"]) from None


def make_cluster_secret(file: Path) -> Path:
    """Create a file with a new secret, unless it exists; return its absolute path.

    It appears complete or not at all; of two processes, the second keeps the secret of the first.

    Raises:
        ConfigError: it cannot be created, or the existing one is unusable.
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
    """Return the secret if it is valid.

    Raises:
        ValueError: it is not; the message does not repeat it.
    """
    if not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"a secret must have from {SHORTEST} to {LONGEST} characters")
    if not secret.isprintable():
        raise ValueError("a secret must be one line of printable characters")
    return secret


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
