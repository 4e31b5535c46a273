"""The connection to one Redis, and its keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.exceptions
from pyspider.message_queue.redis_queue import RedisQueue
from pyspider.message_queue.sentinel_queue import SentinelQueue
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.redis_errors import (
    FOREIGN,
    TLS_REMEDY,
    harmless,
    is_of_login,
    is_of_tls,
    is_read_only,
)
from pyspider_zk.queues.redis_sentinels import master_pool
from pyspider_zk.queues.redis_url import (
    DEFAULT_PORT,
    TLS_FILES,
    HostPort,
    RedisAddress,
    Tls,
    parse,
)

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

_LOGIN_REMEDY = (
    "name a user that may use all of its keys, and the password, in the message queue's URL"
    " (--message-queue or AMQP_URL)"
)


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


class RedisLink:
    """Client that connects at its first use, and repeats a call whose connection broke.

    Threads: any; safe across fork. Errors are raised as `Unavailable`, without the password and the
    data that was sent; as `Refused` for the login or the certificate.

    With sentinels, each new connection leads to the master that they name, and ends when that
    becomes a replica.

    Args:
        where: an address, or a URL as `redis_url.parse` takes it.
        retries: how often a call whose connection broke is repeated, with a pause before each.

    Raises:
        ConfigError: the URL is unusable.
    """

    def __init__(self, where: str | RedisAddress, retries: int = RETRIES) -> None:
        target = where if isinstance(where, RedisAddress) else parse(where)
        self._target = target
        self._login = f"the login {target.username!r}" if target.username else "our login"
        self._client = _client(target, retries)

    def __repr__(self) -> str:
        return f"RedisLink({self._target.place})"

    @property
    def target(self) -> RedisAddress:
        """Where it leads, and with which login."""
        return self._target

    @property
    def server(self) -> HostPort:
        """Where Redis is; with sentinels, where the master was when they were asked last."""
        place = self._target.place
        if isinstance(place, HostPort):
            return place
        pool: Any = self._client.connection_pool
        return HostPort(*pool.master_address)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Context manager for Redis calls, which gives the client.

        Raises:
            Unavailable: Redis does not answer, or refuses the command.
            Refused: it refuses our login, or we its certificate.
        """
        try:
            yield self._client
        except FOREIGN as error:
            if is_read_only(error):
                self.close()  # a former master: only a new connection leads to the current one
            # from None: the original quotes the command, so a traceback would show task bodies.
            raise self._translated(error) from None

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        # Those in use belong to other threads, which would crash inside redis-py.
        self._client.connection_pool.disconnect(inuse_connections=False)

    def _translated(self, error: Exception) -> Unavailable:
        told = harmless(error, self._target.passwords)
        text = f"Redis at {self._target.place}: {told}"
        if is_of_login(error):
            return Refused(f"{text}; it refuses {self._login}: {_LOGIN_REMEDY}")
        if is_of_tls(error):
            return Refused(f"{text}; {TLS_REMEDY}")
        return Unavailable(text)


def _client(target: RedisAddress, retries: int) -> redis.Redis:
    """Return the client, which connects at its first use."""
    options: dict[str, Any] = {
        "db": target.database,
        "username": target.username,
        "password": target.password,
        "socket_timeout": ANSWER_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "retry": Retry(ExponentialBackoff(LONGEST_PAUSE, FIRST_PAUSE), retries, _AGAIN),
        "retry_on_error": list(_AGAIN),  # without it redis-py 5 repeats no pipeline
        "protocol": 2,  # replies of one shape from redis-py 5 to 8
        **(target.tls.options() if target.tls else {}),
    }
    if isinstance(target.place, HostPort):
        return redis.Redis(host=target.place.host, port=target.place.port, **options)
    return redis.Redis(connection_pool=master_pool(target.place, target.tls, options))


def target_of(queue: RedisQueue) -> RedisAddress:
    """Return the address that a queue of pyspider's is connected to."""
    if isinstance(queue, SentinelQueue):
        return parse(queue.url)
    pool = queue.redis.connection_pool
    options = pool.connection_kwargs
    files = map(options.get, TLS_FILES)
    return RedisAddress(
        HostPort(options.get("host") or "localhost", int(options.get("port") or DEFAULT_PORT)),
        int(options.get("db") or 0),
        options.get("username"),
        options.get("password"),
        Tls(*files) if issubclass(pool.connection_class, redis.SSLConnection) else None,
    )
