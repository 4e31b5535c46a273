"""The connection to one Redis, its keys, and the translation of its errors."""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
import redis.exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from pyspider_zk.errors import ConfigError, Refused, Unavailable
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues.names import QueueKind

DEFAULT_PORT = 6379
CONNECT_TIMEOUT = 2.0  # seconds
ANSWER_TIMEOUT = 3.0  # seconds; shorter than a lease, so that a hanging Redis cannot hide its end
RETRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5  # seconds between them

DEAD_LETTERS = "dead_letters"
DEAD_LETTER_LIMIT = (
    10_000  # the oldest go first; a flood of invalid messages must not fill the memory
)

# Not after a timeout: callers must learn of a hanging Redis while their lease holds.
_AGAIN = (redis.exceptions.ConnectionError,)

_FOREIGN: tuple[type[Exception], ...] = (
    OSError,
    *(
        value
        for value in vars(redis.exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ),
)
_LOGIN = (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError)
_LOGIN_REMEDY = (
    "name a user that may use all of its keys, and the password, in the message queue's URL"
    " (--message-queue or AMQP_URL)"
)
_TLS_REMEDY = (
    "the message queue's URL must name its host as the certificate does, the port that speaks TLS,"
    " and with ?ssl_ca_certs=FILE the authority that signed it"
)
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")  # redis-py's names
_QUOTED_COMMAND = re.compile(r"^Command # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
_QUOTED_ARGUMENTS = re.compile(r", with args beginning with: .*", re.DOTALL)


def ready_key(kind: QueueKind) -> str:
    """Return the key of the set of slots whose queue of this kind is not empty."""
    return f"{kind.value}:ready"


def record_key(slot: int) -> str:
    """Return the key of a slot's record."""
    return f"slot_record:{slot}"


def parked_key(slot: int) -> str:
    """Return the key of a slot's parked messages."""
    return f"parked:{slot}"


PARKED_READY = "parked:ready"
"""The key of the set of slots that have parked messages."""


SLOT_WAKE_UPS = "slot_wake_ups"
"""The stream of the names of slot queues that got a message while they were empty."""


def wake_ups_key(queue: str) -> str:
    """Return the stream of the wake-ups of a queue between pyspider's components."""
    return f"{queue}:wake_ups"


def slot_number(name: bytes) -> int | None:
    """Return the slot that a member of a ready set names, None if it names none."""
    if len(name) > len(str(MOST_SLOTS)) or not name.isdigit():
        return None
    slot = int(name)
    return slot if slot < MOST_SLOTS and str(slot).encode() == name else None


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
class RedisAddress:
    """Address and login of a Redis; without ``tls`` the connection is not encrypted."""

    host: str
    port: int
    database: int
    username: str | None
    password: str | None = field(repr=False)
    tls: Tls | None = None


class RedisLink:
    """Client that connects at its first use, and repeats a call whose connection broke.

    Threads: any; safe across fork. Errors are raised as `Unavailable`, without the password and the
    data that was sent; as `Refused` for the login or the certificate.

    Args:
        where: a target, or ``redis://[[user]:password@]host:port/db``, or ``rediss://...`` for TLS,
            with the options ``ssl_ca_certs``, ``ssl_certfile`` and ``ssl_keyfile``. User and
            password are %-decoded.
        retries: how often a call whose connection broke is repeated, with a pause before each.

    Raises:
        ConfigError: the URL is unusable.
    """

    def __init__(self, where: str | RedisAddress, retries: int = RETRIES) -> None:
        target = where if isinstance(where, RedisAddress) else _parse(where)
        self._target = target
        self.address = f"{target.host}:{target.port}"
        self._login = f"the login {target.username!r}" if target.username else "our login"
        self._password = target.password
        self._client = redis.Redis(
            host=target.host,
            port=target.port,
            db=target.database,
            username=target.username,
            password=target.password,
            socket_timeout=ANSWER_TIMEOUT,
            socket_connect_timeout=CONNECT_TIMEOUT,
            retry=Retry(ExponentialBackoff(LONGEST_PAUSE, FIRST_PAUSE), retries, _AGAIN),
            retry_on_error=list(_AGAIN),  # without it redis-py 5 repeats no pipeline
            protocol=2,  # replies of one shape from redis-py 5 to 8
            **(target.tls.options() if target.tls else {}),
        )

    def __repr__(self) -> str:
        return f"RedisLink({self.address})"

    @property
    def target(self) -> RedisAddress:
        """Where it leads, and with which login."""
        return self._target

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Context manager for Redis calls, which gives the client.

        Raises:
            Unavailable: Redis does not answer, or refuses the command.
            Refused: it refuses our login, or we its certificate.
        """
        try:
            yield self._client
        except _FOREIGN as error:
            if _is_read_only(error):
                self.close()  # a former master: only a new connection leads to the current one
            # from None: the original quotes the command, so a traceback would show task bodies.
            raise self._translated(error) from None

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        # Those in use belong to other threads, which would crash inside redis-py.
        self._client.connection_pool.disconnect(inuse_connections=False)

    def _translated(self, error: Exception) -> Unavailable:
        text = f"Redis at {self.address}: {self._harmless(error)}"
        if isinstance(error, _LOGIN):
            return Refused(f"{text}; it refuses {self._login}: {_LOGIN_REMEDY}")
        if _is_of_tls(error):
            return Refused(f"{text}; {_TLS_REMEDY}")
        return Unavailable(text)

    def _harmless(self, error: Exception) -> str:
        text = _QUOTED_ARGUMENTS.sub("", _QUOTED_COMMAND.sub("", str(error)))
        if self._password:
            text = text.replace(self._password, "***")
        return f"{text:.200}" or type(error).__name__


def _is_read_only(error: Exception) -> bool:
    """Return whether a replica refused to write; scripts of Redis 6.2 only quote the reason."""
    return isinstance(error, redis.exceptions.ReadOnlyError) or "READONLY" in str(error)


def _is_of_tls(error: BaseException | None) -> bool:
    """Return whether an error is due to a certificate, or to a port without TLS."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def target_of(client: Any) -> RedisAddress:
    """Return the address that a client of redis-py is connected to."""
    pool = client.connection_pool
    options = pool.connection_kwargs
    files = map(options.get, _TLS_FILES)
    return RedisAddress(
        options.get("host") or "localhost",
        int(options.get("port") or DEFAULT_PORT),
        int(options.get("db") or 0),
        options.get("username"),
        options.get("password"),
        Tls(*files) if issubclass(pool.connection_class, redis.SSLConnection) else None,
    )


def _parse(url: str) -> RedisAddress:
    try:
        parts = urlsplit(url)
        host, cluster = parts.hostname, "," in parts.netloc.rpartition("@")[2]
        port = DEFAULT_PORT if cluster else parts.port or DEFAULT_PORT
    except ValueError:
        raise _fault("the host or the port is not written correctly") from None
    database = parts.path.lstrip("/").split("/")[0] or "0"
    if cluster:
        raise _fault("a Redis Cluster cannot be used, name one Redis")
    if not host:
        raise _fault("the host is missing")
    if not (database.isascii() and database.isdigit()):
        raise _fault("the database after the / is not a number")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    tls = _tls(parts.scheme, parts.query)
    return RedisAddress(host, port, int(database), username or None, password or None, tls)


def _tls(scheme: str, query: str) -> Tls | None:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if scheme != "rediss":
        if any(name.startswith("ssl_") for name in options):
            raise _fault(f"{', '.join(options)}: TLS needs rediss://")
        return None  # pyspider ignores other options, too
    for name, file in options.items():
        if name not in _TLS_FILES:
            raise _fault(f"there is no option {name!r}, known are {', '.join(_TLS_FILES)}")
        if not Path(file).is_file():
            raise _fault(f"{name}: there is no file {file!r}")
    if ("ssl_certfile" in options) != ("ssl_keyfile" in options):
        raise _fault("ssl_certfile and ssl_keyfile: give both or none")
    return Tls(*map(options.get, _TLS_FILES))


def _fault(what: str) -> ConfigError:
    return ConfigError(
        [
            f"message queue: {what}; write --message-queue redis://[[user]:password@]host:6379/0,"
            " or rediss:// for TLS, with special characters of user and password %-encoded"
        ]
    )
