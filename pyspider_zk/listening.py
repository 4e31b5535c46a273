"""Listening addresses: loopback, guarded, or explicitly insecure."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from pyspider_zk.errors import ConfigError

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Listener:
    """A port that a process listens on, as its error message describes it.

    Attributes:
        name: of the service.
        option: the command line option for its address.
        opens: what anybody who reaches it can do if nothing guards it.
        guard: what must be set to guard it.
        insist: the option that opens it anyway.
    """

    name: str
    option: str
    opens: str
    guard: str
    insist: str = "--insecure"


def check_port(option: str, port: int) -> None:
    """Check that a port can be listened on; 0 is any free one.

    Systems disagree on a higher one: it is an error here, and there what is left of it in 16 bits.

    Raises:
        ConfigError: it cannot.
    """
    if port not in range(HIGHEST_PORT + 1):
        raise ConfigError([f"{option}: {port!r} must be a port from 0 to {HIGHEST_PORT}"])


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches what listens on a host; an empty one is everything.

    Of names only localhost counts, because other names may lead anywhere.
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
    """Check that a service may listen on a host.

    Raises:
        ConfigError: others could reach it and nothing guards it.
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
