"""Facts about a Redis, as `survey` finds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RedisFacts:
    """What is known of a Redis. Times are seconds.

    Attributes:
        host: of its address.
        tls: whether the connection is encrypted.
        version: as HELLO tells it.
        latency: median of some requests.
        ahead: how far its clock is before ours.
        is_open: whether it answers those who have no login.
        info: what INFO tells; empty: our login may not ask.
        appendfsync: as CONFIG tells it; empty: our login may not ask.
    """

    host: str
    tls: bool
    version: str
    latency: float
    ahead: float
    is_open: bool
    info: Mapping[str, Any]
    appendfsync: str
