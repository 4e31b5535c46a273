"""Reach of a page: which addresses it may connect to."""

from collections.abc import Collection, Iterable
from ipaddress import ip_address, ip_network

from pyspider.libs.destinations import Destinations, is_public
from pyspider.libs.origins import PORTS

_HTTP, _HTTPS = PORTS.values()


class Reach:
    """Reach of one page: public addresses, and of others only what the script asked for.

    That may be anywhere but in a forbidden network, as for pages without a browser. What the page
    itself asks for could be any port of this machine, or of the network behind it.

    Args:
        forbidden: networks that nothing is fetched from.
        opened: networks that pages may reach though they are not public.
        asked: the addresses of the URL's host, as it resolves before the page is opened.
        port: the URL's.
    """

    def __init__(
        self, forbidden: Iterable[str], opened: Iterable[str], asked: Collection[str], port: int
    ) -> None:
        self._destinations = Destinations(forbidden)
        self._opened = [ip_network(network) for network in opened]
        # A name that is public is not private the next time it is resolved.
        self._asked = frozenset() if any(map(is_public, asked)) else frozenset(asked)
        self._ports = {port, _HTTPS} if port == _HTTP else {port}

    def refusal(self, address: str, port: int) -> str:
        """Return why an address may not be connected to, or nothing."""
        if forbidden := self._destinations.refusal(address, led_by=""):
            return str(forbidden)
        if is_public(address) or (address in self._asked and port in self._ports):
            return ""
        if any(ip_address(address) in network for network in self._opened):
            return ""
        return f"{address} port {port} is not public, and not what the script asked for"
