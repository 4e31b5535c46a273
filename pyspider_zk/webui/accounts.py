"""Accounts: everybody who may log in, by pyspider's settings and the user file.

And whether that is enough for the web UI to be opened at an address.
"""

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from werkzeug.security import check_password_hash

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.listening import Listener, check_listening, is_loopback
from pyspider_zk.webui.users import Role, User, read_users

logger = logging.getLogger(__name__)

LISTENER = Listener(
    name="the web UI",
    option="webui --host",
    opens="see all projects and run Python here as this user",
    guard="a login (--need-auth with --username and --password, or the setting users)",
)

NO_SCHEDULER_RPC = (
    "scheduler_rpc: the web UI finds every scheduler through ZooKeeper, and would not ask this one"
    " rather than others; leave it out"
)
_NOBODY = "nobody can log in; start webui with --username and --password, or name a file of users"

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
    """The accounts of a user file as it is now. Threads: any.

    After the start, nobody in a file that cannot be read can log in, and an error is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fault = ""

    def read(self) -> Accounts:
        """Return the accounts by name."""
        users: Mapping[str, User] = {}
        fault = ""
        try:
            users = read_users(self._path).users
        except ConfigError as error:
            fault = str(error)
        if fault and fault != self._fault:
            logger.error("nobody of the user file can log in: %s", fault)
        self._fault = fault
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


def login_settings(settings: Settings) -> dict[str, Any]:
    """Return our settings of logins in the form of pyspider's config."""
    return {
        "login_to_change": settings.login_to_change,
        "viewer_username": settings.viewer_username,
        "viewer_password": settings.viewer_password,
    }


def login_faults(settings: Settings, config: Mapping[str, Any]) -> list[str]:
    """Return why nobody could log in, or a login would not protect anything."""
    if faults := account_faults(config, settings.users):
        return faults
    can_change, viewer = _can_change(settings, config), settings.viewer_username
    named, closed = config.get("webui_username"), config.get("need_auth")
    rules = [
        (
            bool(named) == bool(config.get("webui_password")),
            "webui: give --username and --password, or none of them",
        ),
        (can_change or not settings.login_to_change, f"login_to_change: {_NOBODY}"),
        (can_change or not closed, f"need_auth: {_NOBODY}"),
        (
            not viewer or (can_change and closed),
            "viewer_username: everybody may look; start webui with --need-auth, --username and"
            " --password, or leave it out",
        ),
        (
            not viewer or viewer != named,
            "viewer_username: must be another name than webui's --username",
        ),
    ]
    return [fault for holds, fault in rules if not holds]


def check_open(host: str, settings: Settings, config: Mapping[str, Any]) -> None:
    """Let the web UI listen at an address, and log a warning if that opens it to everybody.

    Raises:
        ConfigError: others could reach it, and need no login.
    """
    guarded = bool(config.get("need_auth")) or settings.login_to_change
    check_listening(LISTENER, host, guarded=guarded, insecure=settings.insecure)
    if not (guarded or is_loopback(host)):
        logger.warning(
            "--insecure: whoever reaches %s may %s", host or "this machine", LISTENER.opens
        )


def _can_change(settings: Settings, config: Mapping[str, Any]) -> bool:
    """Return whether anybody who could log in may do more than look."""
    of_file = read_users(Path(settings.users)).users.values() if settings.users else ()
    roles = [each.role for each in (*configured(config).values(), *of_file)]
    return any(role.may(Role.OPERATOR) for role in roles)
