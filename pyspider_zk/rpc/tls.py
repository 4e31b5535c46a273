"""TLS of a member's XML-RPC, at both ends of a connection."""

import socket
import ssl
from http.client import HTTPConnection

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.tls import reason, server_context

TLS = "https://"
"""Prefix of the address of a member with TLS."""

_MUCH = 2**16  # bytes
_HANDSHAKE = b"\x16"  # the first byte of TLS, never of HTTP
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


def accepted(link: socket.socket, context: ssl.SSLContext | None, seconds: float) -> socket.socket:
    """Return the connection to serve a caller on: with TLS, or the link itself without.

    Blocks until the caller has sent something, and until the end of the TLS handshake.

    Args:
        context: with our certificate; None: without TLS.
        seconds: for each of the two.

    Raises:
        NoTls: the caller uses TLS and we do not, or the handshake failed.
        OSError: the caller sent nothing.
    """
    link.settimeout(seconds)
    if link.recv(1, socket.MSG_PEEK) != _HANDSHAKE:
        return link
    if context is None:
        link.recv(_MUCH)  # unread, it would discard our response, too
        link.sendall(b"HTTP/1.0 400 this port speaks no TLS\r\n\r\n")
        raise NoTls("they speak TLS; for that set xmlrpc_tls_certificate and xmlrpc_tls_key")
    try:
        return _after_handshake(
            context.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
        )
    except OSError as error:
        raise NoTls(f"the TLS handshake failed: {reason(error)}") from error


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
        connection.sock = _after_handshake(
            context.wrap_socket(link, server_hostname=name, do_handshake_on_connect=False)
        )
    except (OSError, ValueError) as error:  # TLS rejects some host names
        link.close()
        raise NoTls(f"there is no TLS with {address}: {reason(error)}; {_REMEDY}") from error
    return connection


def _after_handshake(link: ssl.SSLSocket) -> ssl.SSLSocket:
    """Return the link after the handshake, which the time-out limits as a whole.

    Raises:
        OSError: it failed; the link is closed.
    """
    try:
        link.do_handshake()
    except OSError:
        link.close()
        raise
    return link
