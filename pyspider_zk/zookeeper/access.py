"""Access to ZooKeeper: how a connection proves who it is and whom it talks to, and its ACLs."""

import importlib.util
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionDropped,
    InvalidACLError,
    NoAuthError,
    SASLException,
    SessionClosedRequireSaslError,
)
from kazoo.security import ACL, Id, Permissions, make_digest_acl_credential

from pyspider_zk.config import SASL, Settings
from pyspider_zk.errors import ConfigError, Refused, Unavailable
from pyspider_zk.tls import client_context, reason, show

REFUSALS = (NoAuthError, AuthFailedError, InvalidACLError, SessionClosedRequireSaslError)
"""What ZooKeeper answers to those it does not let in."""

EVERYBODY = Id("world", "anyone")

_ENDS_KAZOO = (AuthFailedError, SASLException, SessionClosedRequireSaslError)


def acls(settings: Settings) -> list[ACL] | None:
    """Return who may use what is created; None without a login: everybody may."""
    if not settings.username:
        return None
    readers = (reader.partition(":") for reader in settings.readers)
    return [
        ACL(Permissions.ALL, _identity(settings)),
        *(ACL(Permissions.READ, Id(scheme, name)) for scheme, _, name in readers),
    ]


def login(settings: Settings) -> dict[str, Any]:
    """Return kazoo's options for the login, and for the ACL of every znode that it creates.

    Raises:
        ConfigError: what SASL needs is not installed.
    """
    if not settings.username:
        return {}
    if settings.scheme != SASL:
        credential = f"{settings.username}:{settings.password}"
        return {"default_acl": acls(settings), "auth_data": [("digest", credential)]}
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError(["scheme: sasl needs a package more: pip install pure-sasl"])
    options = {"username": settings.username, "password": settings.password}
    return {"default_acl": acls(settings), "sasl_options": {"mechanism": "DIGEST-MD5", **options}}


def _identity(settings: Settings) -> Id:
    if settings.scheme == SASL:
        return Id("sasl", settings.username)
    return Id("digest", make_digest_acl_credential(settings.username, settings.password))


class Admission:
    """What stands between a TCP connection and ZooKeeper's first answer: TLS and the login.

    kazoo ends for good when a login is refused, even if only the link broke meanwhile. Here it goes
    on trying, as after any lost connection, and why it was refused is remembered.

    Threads: `secure` runs on kazoo's, and what `guard` wraps; all else on any.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context: ssl.SSLContext | None = None
        self._fault: str | None = None

    def load(self) -> None:
        """Read the files that TLS needs.

        Raises:
            ConfigError: one of them cannot be used.
        """
        self._context = tls_context(self._settings) if self._settings.tls else None

    def secure(self, link: socket.socket, hostname: str, seconds: float) -> socket.socket:
        """Begin TLS on a connected socket, if it is requested; blocks for so long at most.

        Raises:
            OSError: the server's certificate is not valid for that name, or it speaks no TLS.
        """
        if not self._settings.tls:
            return link
        context = self._context or tls_context(self._settings)
        tls = context.wrap_socket(link, server_hostname=hostname, do_handshake_on_connect=False)
        try:
            tls.settimeout(seconds)
            tls.do_handshake()
        except OSError as error:
            tls.close()
            if not isinstance(error, TimeoutError):  # silence says nothing about certificates
                self._fault = f"there is no TLS with {hostname}: {reason(error)}; {_TLS_REMEDY}"
            raise
        return tls

    def guard(self, client: KazooClient) -> None:
        """Let the client go on after a refusal, which is remembered until we are let in."""
        handler = client._connection
        connect: Callable[..., Any] = handler._connect

        def attempt(*args: Any) -> Any:
            try:
                found = connect(*args)
            except _ENDS_KAZOO as error:
                self._fault = f"it refuses {self._login} ({type(error).__name__}); {_LOGIN_REMEDY}"
                raise ConnectionDropped("the login was refused") from error
            self._fault = None
            return found

        handler._connect = attempt

    def refused(self) -> Refused | None:
        """Return why we were not let in since we last were, None if nobody refused."""
        fault = self._fault
        return Refused(f"ZooKeeper at {self._settings.hosts}: {fault}") if fault else None

    def unanswered(self, patience: float) -> Unavailable:
        """Return what it means that nothing was answered after we logged in."""
        return Unavailable(
            f"ZooKeeper at {self._settings.hosts} does not answer {self._login} within"
            f" {patience:g} s; {_LOGIN_REMEDY}"
        )

    def denied(self, path: str, error: Exception) -> Refused:
        """Return what it means that a request about a znode was refused."""
        remedy = _LOGIN_REMEDY if self._settings.username else _NO_LOGIN_REMEDY
        return Refused(
            f"ZooKeeper at {self._settings.hosts} refuses {self._login} access to {path}"
            f" ({type(error).__name__}); {remedy}"
        )

    @property
    def _login(self) -> str:
        name, scheme = self._settings.username, self._settings.scheme
        return f"the login {name!r} ({scheme})" if name else "whoever has no login"


_LOGIN_REMEDY = "username, password and scheme must be those of the cluster's other processes"
_NO_LOGIN_REMEDY = (
    "set username and password, or PYSPIDER_ZK_USERNAME and PYSPIDER_ZK_PASSWORD_FILE,"
    " to the cluster's login"
)
_TLS_REMEDY = (
    "hosts must name servers as their certificates do, with the port that speaks TLS, and tls_ca"
    " the authority that signed them; if they want a certificate, set tls_certificate and tls_key"
)


def tls_context(settings: Settings) -> ssl.SSLContext:
    """Return how TLS is spoken with ZooKeeper; reads the files that the settings name.

    Raises:
        ConfigError: one of them cannot be used.
    """
    context = client_context(settings.tls_ca, "tls_ca")
    if settings.tls_certificate:
        files = settings.tls_certificate, settings.tls_key
        show(context, *files, "tls_certificate, tls_key")
    return context


def tells_no_secret(record: logging.LogRecord) -> bool:
    """Return whether what kazoo logs may be written: below INFO it quotes credentials."""
    return record.levelno >= logging.INFO
