"""Listening addresses: loopback, or behind a guard, or because somebody insists."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from pyspider_zk.errors import ConfigError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Listener:
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
    """Return whether only this machine reaches what listens on a host; an empty one is everything.

    Of names only localhost counts, for nobody here knows where others lead.
    """
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def check_listening(
    listener: Listener, host: str, *, guarded: bool, insecure: bool = False
) -> None:
    """Allow a listener to listen on a host.

    Raises:
        ConfigError: others would reach it and nothing guards it.
    """
    if is_loopback(host) or guarded or insecure:
        return
    raise ConfigError(
        [
            f"{listener.option} {host or '(everything)'}: whoever reaches {listener.name} there may"
            f" {listener.opens}; set {listener.guard}, or listen on {LOOPBACK},"
            f" or say {listener.insist} to open it to everybody"
        ]
    )
