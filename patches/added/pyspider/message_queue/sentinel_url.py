"""URL of a Redis whose master is named by sentinels.

Added by pyspider-zk. ``redis+sentinel://[[user]:password@]host[:port],.../master-name[/db]``, or
``rediss+sentinel://`` for TLS to the sentinels and to Redis; user and password are Redis's, those
of the sentinels are the options ``sentinel_username`` and ``sentinel_password``.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

SCHEMES = ("redis+sentinel", "rediss+sentinel")
PORT = 26379

_NAME = re.compile(r"[A-Za-z0-9._-]+")  # what Redis takes as a name
_PLACE = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s\[\]:,/?#@]+)(:(?P<port>[0-9]{1,5}))?")


class SentinelUrl(NamedTuple):
    """What such a URL says.

    Attributes:
        sentinels: host and port of each.
        master_name: what the sentinels call the master and its replicas.
        database: number of the database.
        username, password: of Redis.
        sentinel_username, sentinel_password: of the sentinels.
        tls: whether all connections are encrypted.
        options: the other options.
    """

    sentinels: tuple[tuple[str, int], ...]
    master_name: str
    database: int
    username: str | None
    password: str | None
    sentinel_username: str | None
    sentinel_password: str | None
    tls: bool
    options: dict[str, str]


def is_sentinel_url(url: str) -> bool:
    """Return whether a URL is of this kind."""
    return url.partition("://")[0] in SCHEMES


def read(url: str) -> SentinelUrl:
    """Return what a URL says.

    Raises:
        ValueError: what is wrong with it, without its passwords.
    """
    scheme, _, rest = url.partition("://")
    # urlsplit would take the brackets of an IPv6 address among several hosts for a mistake.
    address, _, query = rest.partition("#")[0].partition("?")
    place, _, path = address.partition("/")
    login, _, hosts = place.rpartition("@")
    username, _, password = login.partition(":")
    master_name, _, database = path.strip("/").partition("/")
    if not master_name:
        raise ValueError("the name of the master is missing after the hosts")
    if not _NAME.fullmatch(master_name):
        raise ValueError("the name of the master has other characters than A-Z a-z 0-9 . _ -")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError("the database after the name of the master is not a number")
    options = _options(query)
    return SentinelUrl(
        sentinels=_sentinels(hosts),
        master_name=master_name,
        database=int(database or 0),
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_username=options.pop("sentinel_username", "") or None,
        sentinel_password=options.pop("sentinel_password", "") or None,
        tls=scheme == SCHEMES[1],
        options=options,
    )


def _options(query: str) -> dict[str, str]:
    """Return the options; + is no space, for it occurs in passwords."""
    pairs = [option.partition("=") for option in query.split("&") if option]
    if "@" in query or not all(equals for _, equals, _ in pairs):
        raise ValueError("special characters of options must be %-encoded, too")
    return {name: unquote(value) for name, _, value in pairs}


def _sentinels(hosts: str) -> tuple[tuple[str, int], ...]:
    if not hosts:
        raise ValueError("the hosts of the sentinels are missing")
    return tuple(_sentinel(number, each) for number, each in enumerate(hosts.split(","), 1))


def _sentinel(number: int, text: str) -> tuple[str, int]:
    """Return host and port; a fault names the number, for the text may be part of a password."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"sentinel {number} is not written correctly, as host:port")
    port = int(found["port"] or PORT)
    if not 0 < port < 65536:
        raise ValueError(f"the port of sentinel {number} must be from 1 to 65535")
    return found["host"].strip("[]"), port
