"""The file of the cluster's secret: one line that hardly anybody may read."""

import os
import secrets
import tempfile
from pathlib import Path

from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import read_secret

SHORTEST = 16  # characters; who listens to a call may guess the secret without asking anybody
LONGEST = 1000  # characters


def read_cluster_secret(file: Path) -> str:
    """Return the secret in a file; who may read it, `read_secret` says.

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
