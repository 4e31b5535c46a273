"""Destinations: which addresses may be fetched from."""

import ipaddress
from collections.abc import Iterable

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Destinations:
    """Rules on addresses.

    What a script asks for may be anywhere but in a forbidden network: crawling an intranet, or a
    site on this machine, is nobody's fault. A redirect from a public address to one that is not
    was asked for by the site, and is refused.

    Args:
        forbidden: networks such as ``10.0.0.0/8``.
    """

    def __init__(self, forbidden: Iterable[str]) -> None:
        self._forbidden = [ipaddress.ip_network(network) for network in forbidden]

    def refusal(self, address: str, led_by: str) -> str:
        """Return why an address may not be fetched from, or nothing.

        Args:
            address: that the name in the URL resolved to.
            led_by: the address that redirected there, if one did.
        """
        asked = _plain(address)
        if any(asked in network for network in self._forbidden):
            return f"{asked} is in forbidden_networks"
        if led_by and is_public(led_by) and not asked.is_global:
            return f"{asked} is not public, and the redirect there came from a public address"
        return ""


def is_public(address: str) -> bool:
    """Return whether an address is one of the Internet's."""
    return _plain(address).is_global


def _plain(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address; of an IPv4 address within an IPv6 one, that."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if address.version == 6 and address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return getattr(address, "ipv4_mapped", None) or address
