"""Secrets in files and URLs, among them the cluster's; a variable ``X_FILE`` names the file of X.

A command line can be read by every user of a machine, a file or an environment cannot.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pyspider_zk.errors import ConfigError

LARGEST = 64 * 1024  # bytes; a larger file is the wrong one
SHORTEST = 16  # characters; an eavesdropper can test guesses of the cluster's secret offline
LONGEST = 1000  # characters of it

_ROOT = 0
_NOT_THE_OWNER = 0o077
_NOT_ROOTS_GROUP = 0o037  # root decides who may read its files; systemd's ACLs look like that, too

URL_VARIABLES = ("TASKDB", "PROJECTDB", "RESULTDB", "AMQP_URL")
"""pyspider's variables of its databases and its message queue; such a URL may hold a password."""


def read_secret(path: object) -> str:
    """Return what the file holds, without the end of its last line; a pipe does not block it.

    The file is ours and nobody else can access it, or it is root's and at most its group may read
    it: that is how services get secrets that they must not change.

    Raises:
        ValueError: it cannot be read, holds no secret, belongs to somebody else, or others may
            read it; the message has the path and the reason, and nothing of the content.
    """
    if not isinstance(path, str) or not path:
        raise ValueError("must be the path of a file")
    try:
        return _text(path, _content(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def take_from_files(environ: MutableMapping[str, str], variables: Iterable[str]) -> None:
    """Set the variables whose values are in files, and remove those that name the files.

    Raises:
        ConfigError: names every unusable file, and every value that is given twice.
    """
    faults: list[str] = []
    for name in variables:
        path = environ.pop(f"{name}_FILE", "")
        if not path:
            continue
        if environ.get(name):
            faults.append(f"environment: give {name} or {name}_FILE, not both")
        try:
            environ[name] = read_secret(path)
        except ValueError as error:
            faults.append(f"environment, {name}_FILE: {error}")
    if faults:
        raise ConfigError(faults)


def without_password(url: str) -> str:
    """Return a URL without its password, and with no other options than those of TLS.

    Everything up to the last @ may be the password: one that is not %-encoded may hold any
    character.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or rest.startswith("/"):  # a path, which has no login
        return url
    rest, _, options = rest.partition("?") if "@" not in rest.partition("?")[2] else (rest, "", "")
    login, at, place = rest.rpartition("@")
    kept = "&".join(option for option in options.split("&") if option.startswith("ssl_"))
    return f"{scheme}://{login.partition(':')[0]}{at}{place}{'?' if kept else ''}{kept}"


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
            with suppress(FileExistsError), private_file(file, replace=False) as opened:
                opened.write(f"{secrets.token_urlsafe()}\n".encode())
    except OSError as error:
        raise ConfigError([f"{file} cannot be written: {error.strerror}"]) from error
    read_cluster_secret(file)
    return file


@contextmanager
def private_file(file: Path, *, replace: bool) -> Iterator[IO[bytes]]:
    """Give what the block writes as a file for its owner only, complete or not at all.

    Args:
        replace: it takes the place of one that is there.

    Raises:
        FileExistsError: one is there, and stays.
        OSError: it cannot be written.
    """
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    try:
        with open(handle, "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        (os.replace if replace else os.link)(draft, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


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


def _content(path: str) -> bytes:
    """Read the open file that was checked, whatever the path leads to by now."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(handle))
        return os.read(handle, LARGEST + 1)
    finally:
        os.close(handle)


def _check(path: str, found: os.stat_result) -> None:
    """Refuse a file that others can write or read.

    Raises:
        ValueError: naming the remedy.
    """
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is no file")
    if found.st_uid not in (_ROOT, os.geteuid()):
        raise ValueError(
            f"{path} belongs to user {found.st_uid}, neither to you nor to root:"
            " take it over, or name your own"
        )
    if found.st_mode & (_NOT_ROOTS_GROUP if found.st_uid == _ROOT else _NOT_THE_OWNER):
        mode = stat.S_IMODE(found.st_mode)
        raise ValueError(f"{path} can be read by others (mode {mode:03o}): {_remedy(path, found)}")


def _remedy(path: str, found: os.stat_result) -> str:
    if found.st_uid == os.geteuid():
        return f"chmod 600 {path}"
    return f"chmod 640 {path}, or let what mounts it give it mode 0440"


def _text(path: str, held: bytes) -> str:
    if len(held) > LARGEST:
        raise ValueError(f"{path} holds more than {LARGEST:,} bytes: it must hold the secret only")
    try:
        secret = held.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None
    if not secret or not secret.isprintable():
        raise ValueError(f"{path} must hold the secret in one line")
    return secret
