"""Survey of a ZooKeeper: what its servers, its session and its ACLs tell; nothing is written."""

import re
import socket
import time
from collections.abc import Iterator
from statistics import median

from kazoo.security import Permissions

from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused
from pyspider_zk.zookeeper.access import tls_context
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.facts import ServerAnswer, ZooKeeperFacts
from pyspider_zk.zookeeper.wire import address_of

PROBES = 5
PATIENCE = 2.0  # seconds for one server's answer
LONGEST_ANSWER = 64 * 1024  # bytes
MOST_ZNODES = 1000  # whose ACLs are looked at, those next to the root first

_CONFIG = "/zookeeper/config"
_SERVER = re.compile(r"^server\.\d+=", re.MULTILINE)
_VERSION = re.compile(r"^Zookeeper version: ([\w.]+)", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)


def survey(connection: Connection, settings: Settings) -> ZooKeeperFacts:
    """Ask a ZooKeeper; blocks for some round trips, and two seconds per silent server.

    Args:
        connection: started.

    Raises:
        Unavailable: it stopped answering.
    """
    changeable, readable = _exposed(connection, settings.root)
    return ZooKeeperFacts(
        servers=tuple(ask(address, settings) for address in _addresses(settings)),
        ensemble=_ensemble(connection),
        latency=median(_latencies(connection, settings.root)),
        granted=connection.times.granted,
        changeable=changeable,
        readable=readable,
        exists=connection.find(settings.root) is not None,
    )


def ask(address: str, settings: Settings) -> ServerAnswer:
    """Ask one server who it is; blocks for some seconds at most."""
    try:
        answer = _answer_of(address, settings)
    except OSError as error:
        return ServerAnswer(address, fault=str(error) or type(error).__name__)
    version, mode = _VERSION.search(answer), _MODE.search(answer)
    return ServerAnswer(address, "", version[1] if version else "", mode[1] if mode else "")


def _answer_of(address: str, settings: Settings) -> str:
    host, port = address_of(address)
    with socket.create_connection((host, port), PATIENCE) as plain:
        link = plain
        if settings.tls:
            link = tls_context(settings).wrap_socket(plain, server_hostname=host)
        try:
            link.sendall(b"srvr")
            return _read(link)
        except ConnectionError:  # it is there, and does not talk to those without a certificate
            return ""
        finally:
            link.close()


def _read(link: socket.socket) -> str:
    until, held = time.monotonic() + PATIENCE, b""
    while len(held) < LONGEST_ANSWER and time.monotonic() < until and (data := link.recv(4096)):
        held += data
    return held.decode(errors="replace")


def _addresses(settings: Settings) -> list[str]:
    return [each.strip() for each in settings.hosts.split(",")]


def _ensemble(connection: Connection) -> int:
    """Return how many servers the configuration names that everybody may read."""
    try:
        found = connection.find(_CONFIG)
    except Refused:
        return 0
    return len(_SERVER.findall(found[0].decode(errors="replace"))) if found else 0


def _latencies(connection: Connection, root: str) -> Iterator[float]:
    for _ in range(PROBES):
        before = time.monotonic()
        connection.sync(root)
        yield time.monotonic() - before


def _exposed(connection: Connection, root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what everybody may change, and what everybody may read."""
    paths = _some_znodes(connection, root)
    granted = dict(zip(paths, connection.granted_to_all(paths), strict=True))
    return (
        tuple(path for path, bits in granted.items() if bits & ~Permissions.READ),
        tuple(path for path, bits in granted.items() if bits & Permissions.READ),
    )


def _some_znodes(connection: Connection, root: str) -> list[str]:
    """Return the root and what is below it, level by level, up to a limit."""
    level = [root] if connection.find(root) is not None else []
    found: list[str] = []
    while level and len(found) < MOST_ZNODES:
        found += level
        names = connection.look([], [(path, None) for path in level]).names
        pairs = zip(level, names, strict=True)
        level = [f"{path}/{name}" for path, below in pairs for name in below][:MOST_ZNODES]
    return found[:MOST_ZNODES]
