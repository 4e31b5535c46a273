"""Where something may listen: on loopback, or behind a guard, or because somebody insists."""

import ipaddress
from dataclasses import dataclass

from pyspider_zk.errors import ConfigError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Door:
    """Something that listens, in the words of its message.

    Attributes:
        name: what it is.
        option: what says where it listens.
        opens: what whoever reaches it may do if nothing guards it.
        guard: what has to be set to guard it.
        insist: the option that lets it stand open.
    """

    name: str
    option: str
    opens: str
    guard: str
    insist: str = "--insecure"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches what listens on a host; an empty one is everything."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_listening(door: Door, host: str, *, guarded: bool, insecure: bool = False) -> None:
    """Allow a door to listen on a host.

    Raises:
        ConfigError: others would reach it and nothing guards it.
    """
    if is_loopback(host) or guarded or insecure:
        return
    raise ConfigError(
        [
            f"{door.option} {host or '(everything)'}: whoever reaches {door.name} there may"
            f" {door.opens}; set {door.guard}, or listen on {LOOPBACK},"
            f" or say {door.insist} to open it to everybody"
        ]
    )
