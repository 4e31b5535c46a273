"""The folder of an embedded cluster: its lock, the addresses of its parts, their files.

The passwords of the ZooKeeper and the Redis that ``up`` starts are created once, in files that only
its user may read. An empty path means none: the server is not ours, or there is another login.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from pyspider_zk.config import ENV_PREFIX, Settings
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.secret_files import private_file, read_cluster_secret, without_password

USERNAME = "up"

_LOCK = "up.lock"
_NOTE = "up.json"
_OUR_FOLDER = 0o700
_CUTTING = "#?\t\r\n"  # pyspider reads no path of an sqlite file with one of them as it is written
_OPEN = "others can enter it: run `chmod 700 {}`, or name another folder with --data-path"


@dataclass(frozen=True, kw_only=True)
class CommonAddresses:
    """Where the services and files of a cluster are, which all its processes use.

    Attributes:
        zookeeper: ``host:port,host:port/root``.
        message_queue, taskdb, projectdb, resultdb: URLs.
        secret_file: of the secret that was created for the cluster; empty: it had one.
        zookeeper_password_file: of the password that was created for ZooKeeper; empty: none.
        redis_password_file: of the password that was created for Redis; empty: none.
    """

    zookeeper: str
    message_queue: str = field(repr=False)
    taskdb: str = field(repr=False)
    projectdb: str = field(repr=False)
    resultdb: str = field(repr=False)
    secret_file: str = ""
    zookeeper_password_file: str = ""
    redis_password_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Running(CommonAddresses):
    """A cluster that ``pyspider-zk up`` runs: the contents of ``up.json``, without passwords.

    Attributes:
        pid: the process of ``up``.
        webui: URL of the web UI.
        schedulers: how many schedulers it should run.
    """

    pid: int
    webui: str
    schedulers: int


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; the kernel releases it however we end.

    It holds scripts, results and logs: one that is created here is closed to others, one that they
    can enter is refused. It is not closed, for it might be their home or ``/tmp``.

    Raises:
        ClusterError: a cluster runs there already.
        ConfigError: it is no folder that we can write to, others can enter it, or no URL of a
            database can have its path.
    """
    _check_path(folder)
    with _opened_lock(folder) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ClusterError(
                f"a cluster runs in {folder.resolve()} already (pid"
                f" {lock.read().strip() or 'unknown'}); end it first, or choose another folder"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def announce(folder: Path, running: Running) -> None:
    """Write ``up.json``, readable by us only and without the passwords of the URLs.

    A reader sees either the old file or the new one.

    Raises:
        ConfigError: it cannot be written.
    """
    note = folder / _NOTE
    record = {
        name: without_password(value) if isinstance(value, str) else value
        for name, value in asdict(running).items()
    }
    try:
        with private_file(note, replace=True) as file:
            file.write(f"{json.dumps(record, indent=2)}\n".encode())
    except OSError as error:
        raise ConfigError([f"{note} cannot be written: {error.strerror}"]) from error


def withdraw(folder: Path) -> None:
    """Remove ``up.json``, if it is there."""
    (folder / _NOTE).unlink(missing_ok=True)


def running_in(folder: Path) -> Running | None:
    """Return the cluster that runs in the folder; None if none does or it is not ready yet.

    An ``up`` that was killed leaves its file behind, so the lock decides.

    Raises:
        ClusterError: it is another user's, or of a version that tells other things.
    """
    note = folder / _NOTE
    try:
        if not note.exists() or not _is_claimed(folder):
            return None
        return Running(**json.loads(note.read_text(encoding="utf-8")))
    except FileNotFoundError:  # it has just ended
        return None
    except TypeError:
        raise ClusterError(
            f"the cluster in {folder.resolve()} was started by another version of pyspider-zk:"
            " end that `up` and start it again"
        ) from None
    except PermissionError:
        raise ClusterError(
            f"the cluster in {folder.resolve()} is another user's: name its ZooKeeper with"
            " --zookeeper and its message queue with --message-queue"
        ) from None


def prepare_databases(files: Iterable[Path]) -> None:
    """Create missing sqlite files, and let several processes read while one writes (WAL).

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


def zookeeper_environ(password_file: str) -> dict[str, str]:
    """Return the environment variables with the login to ZooKeeper."""
    if not password_file:
        return {}
    return {f"{ENV_PREFIX}USERNAME": USERNAME, f"{ENV_PREFIX}PASSWORD_FILE": password_file}


def with_login(settings: Settings, password_file: str) -> Settings:
    """Return settings with the login to ZooKeeper; reads the password.

    Raises:
        ConfigError: the file is unusable.
    """
    if not password_file:
        return settings
    password = read_cluster_secret(Path(password_file))
    return replace(settings, username=USERNAME, password=password)


def with_password(url: str, password_file: str) -> str:
    """Return the URL of a Redis with the password in the file.

    Raises:
        ConfigError: the file is unusable.
    """
    if not password_file:
        return url
    scheme, _, place = url.partition("://")
    password = quote(read_cluster_secret(Path(password_file)), safe="")
    return f"{scheme}://:{password}@{place.rpartition('@')[2]}"


def _check_path(folder: Path) -> None:
    path = str(folder.resolve())
    for character in _CUTTING:
        if character in path:
            remedy = "name another folder with --data-path"
            raise ConfigError(
                [f"data path {path!r}: URLs of databases cannot have {character!r}; {remedy}"]
            )


def _opened_lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(_OUR_FOLDER, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            raise ConfigError([f"data path {folder}: {_OPEN.format(folder)}"])
        return (folder / _LOCK).open("a+", encoding="ascii")
    except OSError as error:
        remedy = "name a folder that you can write to with --data-path"
        raise ConfigError([f"data path {folder}: {error.strerror}; {remedy}"]) from error


def _is_claimed(folder: Path) -> bool:
    lock = folder / _LOCK
    if not lock.exists():
        return False
    with lock.open(encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
