"""Throttle: how often wrong passwords may be tried, per user and per peer."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

MOST_KEYS = 10_000


class Limit(NamedTuple):
    """How many wrong passwords there may be in a row.

    Attributes:
        burst: so many at once.
        pause: seconds after which there may be one more.
    """

    burst: int
    pause: float


PER_USER = Limit(10, 6.0)
PER_PEER = Limit(30, 2.0)


class Key(NamedTuple):
    """Key of a count: a user, a peer, or a user at a known peer."""

    kind: str
    name: str

    @property
    def limit(self) -> Limit:
        """How many wrong passwords there may be."""
        return PER_PEER if self.kind == "peer" else PER_USER


def peer_key(address: str) -> Key:
    """Return the key of a peer; an IPv6 /64 network is one peer, because one host has all of it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return Key("peer", address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return Key("peer", str(ip_network((parsed, 64), strict=False)))
    return Key("peer", address)


def known_key(name: str, address: str) -> Key:
    """Return the key of a user where that user has logged in before."""
    return Key("user at a known address", f"{peer_key(address).name} {name}")


class Throttle:
    """Counts of wrong passwords; beyond ``most`` keys the least recently used are forgotten.

    Threads: any.

    Args:
        clock: in seconds.
        most: keys.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEYS) -> None:
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # level, when
        self._lock = threading.Lock()

    def wait(self, keys: Iterable[Key]) -> float:
        """Return the seconds until the next try is allowed to all of these; 0: now."""
        with self._lock:
            now = self._clock()
            return max(0.0, *(self._wait(key, now) for key in keys))

    def failed(self, keys: Iterable[Key]) -> list[Key]:
        """Count a wrong password; return the keys that must wait from now on."""
        with self._lock:
            now = self._clock()
            return [key for key in keys if self._count(key, now)]

    def _count(self, key: Key, now: float) -> bool:
        self._levels[key] = (self._level(key, now) + 1, now)
        self._levels.move_to_end(key)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return self._wait(key, now) > 0

    def _wait(self, key: Key, now: float) -> float:
        return (self._level(key, now) + 1 - key.limit.burst) * key.limit.pause

    def _level(self, key: Key, now: float) -> float:
        level, at = self._levels.get(key, (0.0, now))
        return max(0.0, level - (now - at) / key.limit.pause)
