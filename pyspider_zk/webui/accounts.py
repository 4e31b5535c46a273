"""Accounts: everybody who may log in, from pyspider's settings and from the user file."""

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from werkzeug.security import check_password_hash

from pyspider_zk.errors import ConfigError
from pyspider_zk.webui.roles import Role
from pyspider_zk.webui.users import read_users

logger = logging.getLogger(__name__)

_SETTINGS = (("webui", Role.ADMIN), ("viewer", Role.VIEWER))


@dataclass(frozen=True)
class Account:
    """Account of somebody who may log in.

    Attributes:
        secret: the password, or its hash.
        hashed: whether it is a hash.
    """

    name: str
    role: Role
    secret: str = field(repr=False)
    hashed: bool = False

    def has(self, password: str) -> bool:
        """Return whether this is the password; takes a tenth of a second if it is hashed."""
        if self.hashed:
            return check_password_hash(self.secret, password)
        return hmac.compare_digest(self.secret.encode(), password.encode())


Accounts = Mapping[str, Account]


def configured(config: Mapping[str, Any]) -> dict[str, Account]:
    """Return the account in pyspider's settings, if name and password are set."""
    found: dict[str, Account] = {}
    for setting, role in reversed(_SETTINGS):
        name, password = config.get(f"{setting}_username"), config.get(f"{setting}_password")
        if name and password:
            found[name] = Account(name, role, password)
    return found


class FileAccounts:
    """The accounts of a user file, read again when it changes. Threads: any.

    After the start, nobody in a file that cannot be read can log in, and an error is logged.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._accounts: Accounts = {}

    def read(self) -> Accounts:
        """Return the accounts by name."""
        seen = self._stamp()
        if seen != self._seen:
            self._accounts = self._loaded()
            self._seen = seen
        return self._accounts

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return (-1,)
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode

    def _loaded(self) -> Accounts:
        try:
            users = read_users(self._path).users
        except ConfigError as error:
            logger.error("nobody of the user file can log in: %s", error)
            return {}
        return {
            name: Account(name, user.role, user.password, hashed=True)
            for name, user in users.items()
        }


def account_faults(config: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with settings and user file together, each with its remedy."""
    try:
        users = read_users(Path(path)).users if path else {}
    except ConfigError as error:
        return list(error.faults)
    twice = sorted(set(users) & set(configured(config)))
    return [f"users: {name!r} is in the user file and in the settings: leave one" for name in twice]


def all_accounts(
    config: Mapping[str, Any], of_file: Callable[[], Accounts] = dict
) -> Callable[[], Accounts]:
    """Return a function that returns all present accounts; the settings may change."""
    return lambda: {**of_file(), **configured(config)}
