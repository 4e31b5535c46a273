"""TLS of a member's XML-RPC: the certificate for callers, and connections to members."""

import ssl
from http.client import HTTPConnection

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.tls import reason, server_context

TLS = "https://"
"""Prefix of the address of a member with TLS."""

_REMEDY = (
    "its certificate must be valid for the host of its address (advertise), and xmlrpc_tls_ca must"
    " name the authority that signed it"
)


class NoTls(ConnectionError):
    """TLS is required but not available."""


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context for our callers; None: without TLS. Reads files.

    Raises:
        ConfigError: the files are unusable, or missing although TLS is required.
    """
    if settings.xmlrpc_tls_certificate:
        return server_context(
            settings.xmlrpc_tls_certificate,
            settings.xmlrpc_tls_key,
            "xmlrpc_tls_certificate, xmlrpc_tls_key",
        )
    if settings.xmlrpc_tls:
        raise ConfigError(
            ["xmlrpc_tls: what serves XML-RPC needs xmlrpc_tls_certificate and xmlrpc_tls_key"]
        )
    return None


def connect(address: str, context: ssl.SSLContext, seconds: float) -> HTTPConnection:
    """Return a TLS connection to a member; each step blocks up to the given time.

    Args:
        address: without the scheme.

    Raises:
        NoTls: TLS is not available there.
        OSError: it cannot be reached.
    """
    connection = HTTPConnection(address, timeout=seconds)
    connection.auto_open = 0  # it would be without TLS
    connection.connect()
    link, name = connection.sock, connection.host
    try:
        connection.sock = context.wrap_socket(
            link, server_hostname=name, do_handshake_on_connect=False
        )
        connection.sock.do_handshake()  # which the time-out limits as a whole
    except TimeoutError:  # whether it speaks TLS is not known
        connection.sock.close()
        raise TimeoutError(f"{address} has not answered within {seconds:g} s") from None
    except (OSError, ValueError) as error:  # TLS rejects some host names
        connection.sock.close()
        raise NoTls(f"there is no TLS with {address}: {reason(error)}; {_REMEDY}") from error
    return connection
