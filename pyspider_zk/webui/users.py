"""The user file: who may log in to the web UI, in which role, with hashed passwords."""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import msgspec
from werkzeug.security import generate_password_hash

from pyspider_zk.errors import BadRequest, ConfigError, NotFound
from pyspider_zk.secret_files import private_file
from pyspider_zk.zookeeper.codec import decoder

LONGEST_NAME = 64
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1024
_METHOD = "scrypt:"
_MOST = 2**20  # bytes of the file


class Role(StrEnum):
    """Role of an account; each includes the ones before it."""

    VIEWER = "viewer"
    """Look at everything."""
    OPERATOR = "operator"
    """Start, stop, delete and set projects."""
    ADMIN = "admin"
    """Edit and run scripts."""

    def may(self, needed: "Role") -> bool:
        """Return whether this role is enough where another is needed."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class User:
    """One line of the file.

    Attributes:
        password: its scrypt hash, as Werkzeug writes it.
    """

    role: Role
    password: str = field(repr=False)


@dataclass(frozen=True)
class Users:
    """Content of the user file.

    Attributes:
        key: what sessions are signed with.
        users: by name.
    """

    key: str = field(repr=False)
    users: Mapping[str, User] = field(default_factory=dict)

    def find(self, name: str) -> User:
        """Return a user; raise ``NotFound``, which names all, if there is none."""
        if name not in self.users:
            raise NotFound(f"there is no user {name!r}; there are: {', '.join(self.users)}")
        return self.users[name]


def check_name(name: str) -> None:
    """Raise BadRequest if nobody could log in under this name."""
    if not 0 < len(name) <= LONGEST_NAME or ":" in name or not name.isprintable():
        raise BadRequest(
            f"{name!r:.80}: a user's name has from 1 to {LONGEST_NAME} printable characters,"
            " and no colon"
        )


def check_password(password: str) -> None:
    """Raise BadRequest if the password is too short, or absurdly long."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise BadRequest(
            f"a password has from {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        )


def read_users(path: Path) -> Users:
    """Read the file.

    Raises:
        ConfigError: it is missing or not valid, or others than its owner can read or write it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MOST + 1)
    except OSError as error:
        remedy = "make it with `pyspider-zk user set`"
        raise ConfigError([f"users: {path}: {error.strerror}; {remedy}"]) from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise ConfigError([f"users: {path}: others can read or write it; run: chmod 600 {path}"])
    return _decoded(path, data)


def change_users(path: Path, role: Role, name: str, password: str | None) -> None:
    """Add a user, or change role and, if one is given, password. Creates the file if needed.

    Raises:
        BadRequest: nobody can have such a name or password.
        NotFound: a new user has no password.
        ConfigError: the file is faulty.
    """
    with _locked(path) as users:
        if password is None:
            user = replace(users.find(name), role=role)
        else:
            check_name(name)
            check_password(password)
            user = User(role, generate_password_hash(password))
        _write(path, replace(users, users={**users.users, name: user}))


def remove_user(path: Path, name: str) -> None:
    """Remove a user; this ends the sessions under the name.

    Raises:
        NotFound: there is no such user.
        ConfigError: the file is faulty.
    """
    with _locked(path) as users:
        users.find(name)
        left = {each: user for each, user in users.users.items() if each != name}
        _write(path, replace(users, users=left))


def _decoded(path: Path, data: bytes) -> Users:
    try:
        users: Users = decoder(Users).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError([f"users: {path}: is no file of users: {error}"]) from error
    faults = [name for name, user in users.users.items() if not user.password.startswith(_METHOD)]
    if len(users.key) < 32 or faults:
        wrong = f"password of {faults[0]!r}" if faults else "key"
        raise ConfigError([f"users: {path}: the {wrong} was not written by `pyspider-zk user`"])
    return users


@contextmanager
def _locked(path: Path) -> Iterator[Users]:
    """Yield the content of the file while nobody else changes it."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigError([f"users: {path.parent}: {error.strerror}"]) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield read_users(path) if path.exists() else Users(secrets.token_hex(32))
    finally:
        os.close(folder)


def _write(path: Path, users: Users) -> None:
    """Replace the file at once; a reader finds the old one or the new one."""
    try:
        with private_file(path, replace=True) as file:
            file.write(msgspec.json.format(msgspec.json.encode(users)) + b"\n")
    except OSError as error:
        raise ConfigError([f"users: {path}: {error.strerror}"]) from error
