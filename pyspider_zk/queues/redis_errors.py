"""Errors of redis-py: what they mean, and their text without secrets."""

import re
import ssl
from collections.abc import Iterable

import redis.exceptions

FOREIGN: tuple[type[Exception], ...] = (
    OSError,
    *(
        value
        for value in vars(redis.exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ),
)
"""What may come out of a call to redis-py."""

TLS_REMEDY = (
    "the message queue's URL must name its host as the certificate does, the port that speaks TLS,"
    " and with ?ssl_ca_certs=FILE the authority that signed it"
)

_LOGIN = (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError)
_QUOTED_COMMAND = re.compile(r"^Command # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
_QUOTED_ARGUMENTS = re.compile(r", with args beginning with: .*", re.DOTALL)


def is_of_login(error: BaseException) -> bool:
    """Return whether a server refuses our login, or does not allow it what we want."""
    return isinstance(error, _LOGIN)


def is_of_tls(error: BaseException | None) -> bool:
    """Return whether an error is due to a certificate, or to a port without TLS."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_read_only(error: BaseException) -> bool:
    """Return whether a replica refused to write; scripts of Redis 6.2 only quote the reason."""
    return isinstance(error, redis.exceptions.ReadOnlyError) or "READONLY" in str(error)


def harmless(error: BaseException, passwords: Iterable[str]) -> str:
    """Return the text of an error without passwords and without the data that was sent."""
    text = _QUOTED_ARGUMENTS.sub("", _QUOTED_COMMAND.sub("", str(error)))
    for password in filter(None, passwords):
        text = text.replace(password, "***")
    return f"{text:.200}" or type(error).__name__
