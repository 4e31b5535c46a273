"""Survey of a Redis: what it tells about itself, and to whom; nothing is written."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from statistics import median
from typing import Any

from pyspider_zk.errors import Refused, Unavailable
from pyspider_zk.queues.redis_facts import RedisFacts, SentinelView
from pyspider_zk.queues.redis_link import MasterSearch, RedisLink
from pyspider_zk.queues.redis_url import RedisAddress, Sentinels

PROBES = 5


def survey(url: str) -> RedisFacts:
    """Ask a Redis; blocks for some seconds at most.

    Raises:
        ConfigError: the URL is unusable.
        Unavailable: it does not answer.
        Refused: it refuses our login, or we its certificate.
    """
    with closing(RedisLink(url, retries=0)) as link:
        latency, ahead = _clock(link)
        return RedisFacts(
            host=link.server.host,
            port=link.server.port,
            tls=link.target.tls is not None,
            version=_version(link),
            latency=latency,
            ahead=ahead,
            is_open=_is_open(link),
            info=_info(link),
            appendfsync=_appendfsync(link),
            sentinels=_views(link.target),
        )


def _views(target: RedisAddress) -> list[SentinelView]:
    place = target.place
    return MasterSearch(place, target.tls).views() if isinstance(place, Sentinels) else []


def _clock(link: RedisLink) -> tuple[float, float]:
    """Return how long a request takes, and how far the clock is ahead."""
    with link.client() as client:
        client.ping()  # connects
        readings = [_reading(client) for _ in range(PROBES)]
    return median(took for took, _ in readings), median(ahead for _, ahead in readings)


def _reading(client: Any) -> tuple[float, float]:
    before = time.time()
    seconds, micros = client.time()
    after = time.time()
    return after - before, seconds + micros / 1e6 - (before + after) / 2


def _version(link: RedisLink) -> str:
    with link.client() as client:
        ask: Any = client.execute_command
        told = ask("HELLO")
    pairs = dict(zip(told[::2], told[1::2], strict=False))
    version: bytes = pairs.get(b"version", b"")
    return version.decode(errors="replace")


def _is_open(link: RedisLink) -> bool:
    stranger = RedisLink(replace(link.target, username=None, password=None), retries=0)
    try:
        with closing(stranger), stranger.client() as client:
            client.ping()
    except Unavailable:  # refused, or protected-mode's own sentence
        return False
    return True


def _info(link: RedisLink) -> Mapping[str, Any]:
    try:
        with link.client() as client:
            found: Mapping[str, Any] = client.info()
    except Refused:
        return {}
    return found


def _appendfsync(link: RedisLink) -> str:
    try:
        with link.client() as client:
            found: Any = client.config_get("appendfsync")
    except Unavailable:  # many servers have no CONFIG at all
        return ""
    return str(found.get("appendfsync", ""))
