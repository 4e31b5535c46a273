"""TLS of a member's XML-RPC: the certificate for callers, and connections to members."""

import ssl
from http.client import HTTPSConnection

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.tls import reason, server_context

TLS = "https://"
"""Prefix of the address of a member with TLS."""

_REMEDY = (
    "its certificate must be valid for the host of its address (advertise), and xmlrpc_tls_ca must"
    " name the authority that signed it"
)


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


def connect(address: str, context: ssl.SSLContext, seconds: float) -> HTTPSConnection:
    """Return a TLS connection to a member; each step blocks up to the given time.

    Args:
        address: without the scheme.

    Raises:
        ConnectionError: nobody is there, or TLS is not available.
        OSError: it cannot be reached.
    """
    connection = HTTPSConnection(address, timeout=seconds, context=context)
    try:
        connection.connect()
    except TimeoutError:  # whether it speaks TLS is not known
        connection.close()
        raise TimeoutError(f"{address} has not answered within {seconds:g} s") from None
    except (OSError, ValueError) as error:  # TLS rejects some host names
        if connection.sock is None:  # it came not so far
            raise
        connection.close()
        raise ConnectionError(
            f"there is no TLS with {address}: {reason(error)}; {_REMEDY}"
        ) from error
    return connection
