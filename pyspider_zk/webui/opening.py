"""Opening of the web UI: checks that logins work, and that others cannot get in without one."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspider_zk.config import Settings
from pyspider_zk.listening import Listener, check_listening, is_loopback
from pyspider_zk.webui.accounts import account_faults, configured
from pyspider_zk.webui.roles import Role
from pyspider_zk.webui.users import read_users

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
