"""Real IP: the address of a visitor, as trusted proxies report it."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class RealIP:
    """A WSGI application that is told visitors' addresses instead of its proxies'. Threads: any.

    Each proxy appends the address of its peer to ``X-Forwarded-For``. The last one that is no
    trusted proxy's is the visitor's: whatever stands before it may have come from the visitor.

    Args:
        application: what is told.
        proxies: networks of the trusted proxies.
    """

    def __init__(self, application: "WSGIApplication", proxies: Iterable[str]) -> None:
        self._application = application
        self._proxies = tuple(map(ip_network, proxies))

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on with the visitor's address."""
        reported = str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")
        address = _plain(str(environ.get("REMOTE_ADDR", "")))
        while address and self._is_proxy(address):
            environ["REMOTE_ADDR"] = address
            address = _plain(reported.pop().strip()) if reported else ""
        if address:
            environ["REMOTE_ADDR"] = address
        return self._application(environ, start)

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in each for each in self._proxies)


def _plain(text: str) -> str:
    """Return an address in its usual form, empty if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
