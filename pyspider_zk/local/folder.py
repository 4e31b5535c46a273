"""The folder of an embedded cluster: its lock, and the addresses of the cluster's parts."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.secret_files import without_password

_LOCK = "up.lock"
_NOTE = "up.json"
_OURS = 0o600
_OUR_FOLDER = 0o700
_OPEN = "others can enter it: run `chmod 700 {}`, or name another folder with --data-path"


@dataclass(frozen=True)
class Running:
    """A cluster that ``pyspider-zk up`` runs: the contents of ``up.json``, without passwords.

    Attributes:
        pid: the process of ``up``.
        zookeeper: ``host:port,host:port/root``.
        message_queue: URL of the message queue.
        taskdb: URL of the task database.
        projectdb: URL of the project database.
        resultdb: URL of the result database.
        webui: URL of the web UI.
        schedulers: how many schedulers it should run.
        secret_file: of the secret that was created for it; empty: it had one.
        zookeeper_password_file: of the password that was created for ZooKeeper; empty: none.
        redis_password_file: of the password that was created for Redis; empty: none.
    """

    pid: int
    zookeeper: str
    message_queue: str
    taskdb: str
    projectdb: str
    resultdb: str
    webui: str
    schedulers: int
    secret_file: str = ""
    zookeeper_password_file: str = ""
    redis_password_file: str = ""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; the kernel releases it however we end.

    It holds scripts, results and logs: one that is created here is closed to others, one that they
    can enter is refused. It is not closed, for it might be their home or ``/tmp``.

    Raises:
        ClusterError: a cluster runs there already.
        ConfigError: it is no folder that we can write to, or others can enter it.
    """
    with _opened_lock(folder) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ClusterError(_taken(folder, lock.read().strip())) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _opened_lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(_OUR_FOLDER, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            raise ConfigError([f"data path {folder}: {_OPEN.format(folder)}"])
        return (folder / _LOCK).open("a+", encoding="ascii")
    except OSError as error:
        remedy = "name a folder that you can write to with --data-path"
        raise ConfigError([f"data path {folder}: {error.strerror}; {remedy}"]) from error


def announce(folder: Path, running: Running) -> None:
    """Write ``up.json``, readable by us only and without the passwords of the URLs.

    A reader sees either the old file or the new one.
    """
    record = {name: _as_json(value) for name, value in asdict(running).items()}
    write_for_us(folder / _NOTE, json.dumps(record, indent=2) + "\n")


def write_for_us(file: Path, text: str) -> None:
    """Write a file that only our user may read; readers see either the old or the new file."""
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OURS), "w") as opened:
        opened.write(text)
    draft.replace(file)


def _as_json(value: object) -> object:
    return without_password(value) if isinstance(value, str) else value


def withdraw(folder: Path) -> None:
    """Remove ``up.json``, if it is there."""
    (folder / _NOTE).unlink(missing_ok=True)


def running_in(folder: Path) -> Running | None:
    """Return the cluster that runs in the folder; None if none does or it is not ready yet.

    An ``up`` that was killed leaves its file behind, so the lock decides.

    Raises:
        ClusterError: it is another user's.
    """
    note = folder / _NOTE
    try:
        if not note.exists() or not _is_claimed(folder):
            return None
        return Running(**json.loads(note.read_text(encoding="utf-8")))
    except FileNotFoundError:  # it has just ended
        return None
    except PermissionError:
        raise ClusterError(
            f"the cluster in {folder.resolve()} is another user's: name its ZooKeeper with"
            " --zookeeper and its message queue with --message-queue"
        ) from None


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


def _taken(folder: Path, pid: str) -> str:
    return (
        f"a cluster runs in {folder.resolve()} already (pid {pid or 'unknown'});"
        " end it first, or choose another folder"
    )
