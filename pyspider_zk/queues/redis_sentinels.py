"""The sentinels of a Redis: which master they name, and what each of them sees.

redis-py's pool asks for the master before each new connection, and drops idle ones to another. Each
time all sentinels are asked anew, without any state between threads, processes and outages: that
happens when a connection is made, and connections last.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.queues.redis_errors import (
    FOREIGN,
    TLS_REMEDY,
    harmless,
    is_of_login,
    is_of_tls,
)
from pyspider_zk.queues.redis_facts import SentinelView
from pyspider_zk.queues.redis_url import HostPort, Sentinels, Tls

PATIENCE = 0.5  # seconds that one sentinel may take to accept us, and to answer

_LOGIN_REMEDY = (
    "write ?sentinel_username=USER&sentinel_password=PASSWORD after the message queue's URL, of one"
    " whom the sentinels allow +sentinel|masters and +sentinel|slaves"
)


def master_pool(
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
            except FOREIGN:  # redis-py says no more than that there is none
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
        except FOREIGN as error:
            told = harmless(error, [self._sentinels.password or ""])
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
    if is_of_login(error):
        return _LOGIN_REMEDY
    return TLS_REMEDY if is_of_tls(error) else ""
