"""Facts about a Redis, as `survey` finds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SentinelView:
    """What one sentinel sees of our master.

    Attributes:
        address: of the sentinel.
        fault: why it does not answer; empty: it does.
        remedy: what to do if it refuses us, or we it; empty: it does not.
        known: the names of the masters that it watches.
        master: where it sees the master; empty: it does not know the name.
        is_up: whether it sees the master up.
        replicas: how many replicas it sees connected to the master.
    """

    address: str
    fault: str = ""
    remedy: str = ""
    known: tuple[str, ...] = ()
    master: str = ""
    is_up: bool = False
    replicas: int = 0


@dataclass(frozen=True)
class RedisFacts:
    """What is known of a Redis. Times are seconds.

    Attributes:
        host: of its address.
        port: of its address.
        tls: whether the connection is encrypted.
        version: as HELLO tells it.
        latency: median of some requests.
        ahead: how far its clock is before ours.
        is_open: whether it answers those who have no login.
        info: what INFO tells; empty: our login may not ask.
        appendfsync: as CONFIG tells it; empty: our login may not ask.
        sentinels: what each sentinel sees; empty: none is asked for the master.
    """

    host: str
    port: int
    tls: bool
    version: str
    latency: float
    ahead: float
    is_open: bool
    info: Mapping[str, Any]
    appendfsync: str
    sentinels: Sequence[SentinelView] = ()
