"""Addresses of Redis, and the URLs that they are written in."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspider.message_queue import sentinel_url

from pyspider_zk.errors import ConfigError

DEFAULT_PORT = 6379
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")  # redis-py's names
SCHEMES = ("redis", "rediss", *sentinel_url.SCHEMES)

_FORM = (
    "write --message-queue redis://[[user]:password@]host:6379/0, or rediss:// for TLS, with"
    " special characters of user and password %-encoded"
)
_SENTINEL_FORM = (
    "write --message-queue redis+sentinel://[[user]:password@]host1:26379,host2:26379,host3:26379"
    "/master-name/0, or rediss+sentinel:// for TLS, with special characters of user and password"
    " %-encoded"
)


@dataclass(frozen=True)
class Tls:
    """PEM files for a connection with TLS, which always verifies authority and host name.

    Attributes:
        ca: the trusted authorities; None: the system's.
        certificate: our own; None: none.
        key: its private key, not encrypted.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the options for redis-py."""
        return {
            "ssl": True,
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_ca_certs": self.ca,
            "ssl_certfile": self.certificate,
            "ssl_keyfile": self.key,
            "ssl_password": "",  # without it OpenSSL would prompt at the terminal
        }


@dataclass(frozen=True)
class HostPort:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Sentinels:
    """The sentinels that know which Redis is the master, and our login to them.

    Attributes:
        places: where they listen.
        master_name: what they call the master and its replicas.
        username, password: of the sentinels.
    """

    places: tuple[HostPort, ...]
    master_name: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.master_name} (sentinels {', '.join(map(str, self.places))})"


@dataclass(frozen=True)
class RedisAddress:
    """Address and login of a Redis; without ``tls`` no connection is encrypted.

    Attributes:
        place: where it is, or who knows where the master is.
    """

    place: HostPort | Sentinels
    database: int
    username: str | None
    password: str | None = field(repr=False)
    tls: Tls | None = None

    @property
    def passwords(self) -> tuple[str, ...]:
        """All passwords."""
        of_sentinels = self.place.password if isinstance(self.place, Sentinels) else None
        return tuple(each for each in (self.password, of_sentinels) if each)


def parse(url: str) -> RedisAddress:
    """Return the address that a URL of one of the `SCHEMES` names; looks for its files.

    Raises:
        ConfigError: the URL is unusable; without its passwords.
    """
    if sentinel_url.is_sentinel_url(url):
        return _of_sentinels(url)
    return _of_one_redis(url)


def _of_one_redis(url: str) -> RedisAddress:
    try:
        parts = urlsplit(url)
        host, several = parts.hostname, "," in parts.netloc.rpartition("@")[2]
        port = DEFAULT_PORT if several else parts.port or DEFAULT_PORT
    except ValueError:
        raise _fault("the host or the port is not written correctly") from None
    database = parts.path.lstrip("/").split("/")[0] or "0"
    if several:
        raise _fault(
            "a Redis Cluster cannot be used, name one Redis; sentinels are named with"
            " redis+sentinel://"
        )
    if not host:
        raise _fault("the host is missing")
    if not (database.isascii() and database.isdigit()):
        raise _fault("the database after the / is not a number")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = None
    if parts.scheme == "rediss":
        tls = _tls(options, TLS_FILES, _FORM)
    elif any(name.startswith("ssl_") for name in options):  # pyspider ignores others, too
        raise _fault(f"{', '.join(options)}: TLS needs rediss://")
    place = HostPort(host, port)
    return RedisAddress(place, int(database), username or None, password or None, tls)


def _of_sentinels(url: str) -> RedisAddress:
    try:
        said = sentinel_url.read(url)
    except ValueError as error:
        raise _fault(str(error), _SENTINEL_FORM) from None
    if not said.tls and any(name in TLS_FILES for name in said.options):
        raise _fault(f"{', '.join(said.options)}: TLS needs rediss+sentinel://", _SENTINEL_FORM)
    known = (*TLS_FILES, "sentinel_username", "sentinel_password")
    tls = _tls(said.options, known, _SENTINEL_FORM)
    places = tuple(HostPort(*each) for each in said.sentinels)
    login = (said.sentinel_username, said.sentinel_password)
    return RedisAddress(
        Sentinels(places, said.master_name, *login),
        said.database,
        said.username,
        said.password,
        tls if said.tls else None,
    )


def _tls(options: dict[str, str], known: tuple[str, ...], form: str) -> Tls:
    for name, file in options.items():
        if name not in known:
            raise _fault(f"there is no option {name!r}, known are {', '.join(known)}", form)
        if not Path(file).is_file():
            raise _fault(f"{name}: there is no file {file!r}", form)
    if ("ssl_certfile" in options) != ("ssl_keyfile" in options):
        raise _fault("ssl_certfile and ssl_keyfile: give both or none", form)
    return Tls(*map(options.get, TLS_FILES))


def _fault(what: str, form: str = _FORM) -> ConfigError:
    return ConfigError([f"message queue: {what}; {form}"])
