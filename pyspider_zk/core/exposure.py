"""Exposure: which listeners others than this machine can reach, and which of them may start."""

from ipaddress import IPv6Address, ip_address

from pyspider_zk.errors import ConfigError

INSECURE = "insecure"
"""Where pyspider's config of the web UI has that it shall be open to everybody."""


def is_loopback(host: str) -> bool:
    """Tell whether an address, or the name localhost, leads to this machine only.

    No other name counts, because nobody here knows where it leads.
    """
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_open(host: str, guarded: bool) -> bool:
    """Tell whether everybody who reaches this machine may use what listens there."""
    return not guarded and not is_loopback(host)


def check_exposure(
    what: str, host: str, guarded: bool, opens: str, remedy: str, insecure: bool = False
) -> None:
    """Let a listener start only if it is guarded, on loopback, or wanted open.

    Args:
        what: the listener, such as ``webui``.
        host: the address that it binds; empty: all of this machine.
        guarded: whoever uses it needs a login or a secret.
        opens: what everybody could do, such as ``run Python here``.
        remedy: how to guard it.
        insecure: it was said to be wanted open.

    Raises:
        ConfigError: everybody could use it.
    """
    if not insecure and is_open(host, guarded):
        raise ConfigError(
            [
                f"{what}: whoever reaches {host or 'this machine'} could {opens};"
                f" {remedy}, listen on 127.0.0.1, or insist with --insecure"
            ]
        )
