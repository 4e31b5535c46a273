"""The connection to one Redis, or to the master that sentinels name; what its errors mean.

With sentinels redis-py's pool asks for the master before each new connection, and drops idle ones
to another. Each time all sentinels are asked anew, without any state between threads, processes and
outages: that happens when a connection is made, and connections last.
"""

import re
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import redis
import redis.exceptions
from pyspider.message_queue.redis_queue import RedisQueue
from pyspider.message_queue.sentinel_queue import SentinelQueue
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.queues.redis_facts import SentinelView
from pyspider_zk.queues.redis_url import (
    DEFAULT_PORT,
    TLS_FILES,
    HostPort,
    RedisAddress,
    Sentinels,
    Tls,
    parse,
)

CONNECT_TIMEOUT = 2.0  # seconds
ANSWER_TIMEOUT = 3.0  # seconds; shorter than a lease, so that a hanging Redis cannot hide its end
RETRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5  # seconds between them
PATIENCE = 0.5  # seconds that one sentinel may take to accept us, and to answer

_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    *(
        value
        for value in vars(redis.exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ),
)
"""What may come out of a call to redis-py."""

_TLS_REMEDY = (
    "the message queue's URL must name its host as the certificate does, the port that speaks TLS,"
    " and with ?ssl_ca_certs=FILE the authority that signed it"
)

_LOGIN_REMEDY = (
    "name a user that may use all of its keys, and the password, in the message queue's URL"
    " (--message-queue or AMQP_URL)"
)
_SENTINEL_LOGIN_REMEDY = (
    "write ?sentinel_username=USER&sentinel_password=PASSWORD after the message queue's URL, of one"
    " whom the sentinels allow +sentinel|masters and +sentinel|slaves"
)
# Not after a timeout: callers must learn of a hanging Redis while their lease holds.
_AGAIN = (redis.exceptions.ConnectionError,)
_LOGIN_ERRORS = (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError)
_QUOTED_COMMAND = re.compile(r"^Command # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
_QUOTED_ARGUMENTS = re.compile(r", with args beginning with: .*", re.DOTALL)


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
        except _ERRORS as error:
            if _is_read_only(error):
                self.close()  # a former master: only a new connection leads to the current one
            # from None: the original quotes the command, so a traceback would show task bodies.
            raise self._translated(error) from None

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        # Those in use belong to other threads, which would crash inside redis-py.
        self._client.connection_pool.disconnect(inuse_connections=False)

    def _translated(self, error: Exception) -> Unavailable:
        told = _harmless(error, self._target.passwords)
        text = f"Redis at {self._target.place}: {told}"
        if isinstance(error, _LOGIN_ERRORS):
            return Refused(f"{text}; it refuses {self._login}: {_LOGIN_REMEDY}")
        if _is_of_tls(error):
            return Refused(f"{text}; {_TLS_REMEDY}")
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
    return redis.Redis(connection_pool=_master_pool(target.place, target.tls, options))


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


def _master_pool(
    sentinels: Sentinels, tls: Tls | None, options: Mapping[str, Any]
) -> SentinelConnectionPool:
    """Return a pool of connections to the master, which connect when they are used.

    Args:
        sentinels: who names the master.
        tls: how they are reached; None: not encrypted.
        options: of redis-py, for connections to the master.
    """
    pool: Any = SentinelConnectionPool  # untyped
    search = MasterSearch(sentinels, tls)
    made: SentinelConnectionPool = pool(
        sentinels.master_name, search, redis_connect_func=_connect_to_master, **options
    )
    return made


def _connect_to_master(connection: Any) -> None:
    """Log in, and check that it is a master.

    Sentinels may be late, and a replica would answer those who only read, for as long as they do.
    """
    connection.on_connect()
    connection.send_command("HELLO")
    told = connection.read_response()
    if dict(zip(told[::2], told[1::2], strict=False)).get(b"role") != b"master":
        where = f"{connection.host}:{connection.port}"
        raise redis.exceptions.ConnectionError(f"{where}, which sentinels named, is no master")


class MasterSearch:
    """Search for the master; redis-py's pool takes it for a `redis.sentinel.Sentinel`.

    Threads: any; safe across fork.

    Args:
        sentinels: who is asked.
        tls: how; None: not encrypted.
    """

    def __init__(self, sentinels: Sentinels, tls: Tls | None) -> None:
        self._sentinels = sentinels
        self._options: dict[str, Any] = {
            "username": sentinels.username,
            "password": sentinels.password,
            "socket_timeout": PATIENCE,
            "socket_connect_timeout": PATIENCE,
            "retry": Retry(NoBackoff(), 0),  # there are others to ask
            "protocol": 2,
            **(tls.options() if tls else {}),
        }

    def discover_master(self, master_name: str) -> tuple[str, int]:
        """Return host and port of the master; blocks for ``5 * PATIENCE`` per sentinel at most.

        Raises:
            Unavailable: none of them names one that is up.
            Refused: they do not know its name, or refuse our login, or we their certificate.
        """
        with self._asked() as asked:
            try:
                host, port = asked.discover_master(master_name)
            except _ERRORS:  # redis-py says no more than that there is none
                raise missing_master(master_name, self.views()) from None
        return str(host), int(port)

    def views(self) -> list[SentinelView]:
        """Return what each sentinel sees; blocks for ``3 * PATIENCE`` per sentinel at most."""
        with self._asked() as asked:
            pairs = zip(self._sentinels.places, asked.sentinels, strict=True)
            return [self._view(place, client) for place, client in pairs]

    def _view(self, place: HostPort, client: Any) -> SentinelView:
        try:
            masters = client.sentinel_masters()
            state = masters.get(self._sentinels.master_name)
            replicas = client.sentinel_slaves(self._sentinels.master_name) if state else []
        except _ERRORS as error:
            told = _harmless(error, [self._sentinels.password or ""])
            return SentinelView(str(place), fault=told, remedy=_remedy(error))
        return SentinelView(str(place), known=tuple(masters), **_seen(state, replicas))

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """Lend clients of the sentinels, and close their connections."""
        places = [(place.host, place.port) for place in self._sentinels.places]
        sentinel: Any = Sentinel  # untyped
        asked = sentinel(places, sentinel_kwargs=self._options)
        try:
            yield asked
        finally:
            for client in asked.sentinels:
                client.close()


def missing_master(master_name: str, views: Sequence[SentinelView]) -> Unavailable:
    """Return the error that says why the sentinels name no master."""
    told = f"Redis at {master_name}: {'; '.join(map(_in_words, views))}"
    answers = [view for view in views if not view.fault]
    if any(view.master for view in answers):
        return Unavailable(f"{told}; no master is up")
    if answers:
        return Refused(f"{told}; correct the name of the master in the message queue's URL")
    remedy = next((view.remedy for view in views if view.remedy), "")
    if remedy:
        return Refused(f"{told}; {remedy}")
    return Unavailable(f"{told}; no sentinel answers")


def _in_words(view: SentinelView) -> str:
    if view.fault:
        return f"{view.address}: {view.fault:.100}"
    if view.master:
        return f"{view.address} sees {view.master} {'up' if view.is_up else 'down'}"
    known = ", ".join(view.known) or "none"
    return f"{view.address} knows no such master, but {known:.100}"


def _seen(state: Mapping[str, Any] | None, replicas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a sentinel tells of the master and its replicas."""
    if not state:
        return {}
    return {
        "master": f"{state['ip']}:{state['port']}",
        "is_up": state["is_master"] and not (state["is_sdown"] or state["is_odown"]),
        "replicas": sum(map(_is_connected, replicas)),
    }


def _is_connected(replica: Mapping[str, Any]) -> bool:
    """Return whether a replica is; of one that is down a sentinel repeats what it last heard."""
    is_down = replica["is_sdown"] or replica["is_odown"] or replica["is_disconnected"]
    return replica.get("master-link-status") == "ok" and not is_down


def _remedy(error: BaseException) -> str:
    """Return what to do if a sentinel refused us, or we it."""
    if isinstance(error, _LOGIN_ERRORS):
        return _SENTINEL_LOGIN_REMEDY
    return _TLS_REMEDY if _is_of_tls(error) else ""


def _is_of_tls(error: BaseException | None) -> bool:
    """Return whether an error is due to a certificate, or to a port without TLS."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_read_only(error: BaseException) -> bool:
    """Return whether a replica refused to write; scripts of Redis 6.2 only quote the reason."""
    return isinstance(error, redis.exceptions.ReadOnlyError) or "READONLY" in str(error)


def _harmless(error: BaseException, passwords: Iterable[str]) -> str:
    """Return the text of an error without passwords and without the data that was sent."""
    text = _QUOTED_ARGUMENTS.sub("", _QUOTED_COMMAND.sub("", str(error)))
    for password in filter(None, passwords):
        text = text.replace(password, "***")
    return f"{text:.200}" or type(error).__name__
